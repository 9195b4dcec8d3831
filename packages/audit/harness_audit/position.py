"""Score by where the supporting parts stand in the text, and by how far apart they are (QRMeM,
section on positions).

    text     |-----head-----|----middle----|-----tail-----|      thirds of all characters
    support         [A]                          [B]             centres 0.25 and 0.72 of the text

    where        head, middle, tail: every supporting part has its centre there; apart: they are in several
    distance     from the first centre to the last, a share of the text; questions with one supporting part have none

In a data set as it is, questions of different places differ in more than the place. The paper
places the parts: runs over `dataset.place=head`, `middle`, `tail` or `dataset.distance=...`
(harness/datasets/placing.py) hold the same questions, and those that differ in nothing else are one
line here. Documents of a question count in order as one text.

dataset placed method model     placed: whether an option of the data set put the parts somewhere
study part from to              study "where" or "distance"; the part's name; its ends, shares of the text
score mean mean.low mean.high   the score's name, its mean in [0, 1], 95 % interval clustered by document
n failed notes run              run: the folders that the questions are from, " + " between
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from harness.config.schema import digest
from harness.errors import UserError
from harness.storage.run_folder import StoredRun
from harness.types import GAP, Example
from reports import facts
from reports.figures import plot
from reports.figures.figure import Figure, Titled, for_people
from reports.figures.plot import Axis, Panel
from reports.gold_rows import Rows, with_rows
from reports.run_notes import run_notes
from reports.settings import distinct_labels

PARTS, APART = ("head", "middle", "tail"), "apart"
_PLACES = ("place", "distance")  # options of a data set that put the supporting parts somewhere
_SAME = ["dataset", "placed", "model", "score", "study"]
_NAMES = {
    "where": "where the supporting parts stand, share of the text",
    "distance": "first to last supporting part, share of the text",
}


@dataclass(frozen=True)
class SupportPosition:
    """Centres of a question's supporting parts, sorted, as shares of its text in [0, 1]."""

    centres: tuple[float, ...]

    def where(self) -> int | None:
        """The third, 0 to 2, that holds every centre; None where they are in several."""
        thirds = {_third(centre) for centre in self.centres}
        return thirds.pop() if len(thirds) == 1 else None

    def distance(self) -> float | None:
        """From the first centre to the last; None with a single one."""
        return self.centres[-1] - self.centres[0] if len(self.centres) > 1 else None


def support_position(example: Example, rows: Rows) -> SupportPosition | None:
    """Where the supporting parts of a question stand; None where none is marked or the text is
    empty."""
    sizes = rows.sizes(example.question.document_ids)
    if sizes is None:
        return None
    begins, at = {}, 0
    for name in example.question.document_ids:
        begins[name] = at
        at += sizes[name] + len(GAP)
    whole = at - len(GAP)
    marked = [s for s in example.gold.supporting if s.document_id in begins]
    if not marked or whole <= 0:
        return None
    return SupportPosition(
        tuple(sorted((begins[s.document_id] + (s.start + s.end) / 2) / whole for s in marked))
    )


def figure(
    runs: Sequence[StoredRun], *, score: str | None, data: str | None, warn: Callable[[str], None]
) -> Figure:
    """The figure of the runs; those whose rows cannot be loaded are left out with a warning.

    score: as in `frame`, whose errors it raises; data: where the rows are now.
    """
    table = frame(with_rows(runs, data, warn), score)
    return Figure("Place of the supporting parts", table, sections(table), panels(table))


def frame(runs: Sequence[tuple[StoredRun, Rows]], score: str | None = None) -> pd.DataFrame:
    """The score by place of the support, a row for each third with a question. score: by default
    each run's first.

    Raises UserError where no question of any run has a supporting part that is marked, UnknownName
    for a score that a run does not have.
    """
    rows: list[dict[str, Any]] = []
    lines = _grouped_into_lines(runs, score)
    first = [line.first for line in lines]
    names = facts.labels(first, [f"dataset.{name}" for name in _PLACES])
    for line, label in zip(
        lines, distinct_labels(names, first, [line.table_key() for line in lines]), strict=True
    ):
        rows += _part_rows(line, label)
    if not rows:
        raise UserError(
            "no question of these runs has supporting parts marked, so there is no place to tell; "
            "use a data set that "
            "marks them: musique, hotpotqa, 2wikimultihopqa, qasper or a pocket one"
        )
    return facts.as_floats(pd.DataFrame(rows))


@dataclass
class _PlacedRuns:
    """Runs that are one line: a run, or several that differ in the place of the supporting parts
    only.

    answers: (score, cluster of documents, failed, run) of the questions with a position, positions:
    theirs.
    """

    first: StoredRun
    score: str
    answers: list[tuple[float, str, bool, StoredRun]] = field(default_factory=list)
    positions: list[SupportPosition] = field(default_factory=list)
    unmarked: int = 0

    @property
    def placed(self) -> bool:
        return any(_options(self.first).get(name) is not None for name in _PLACES)

    def table_key(self) -> tuple[str, bool, str]:
        """The table that a line is in: data set, whether its supporting parts were placed,
        model."""
        config = self.first.config
        return config["dataset"]["name"], self.placed, config["model"]["name"]

    def add(self, run: StoredRun, read: Rows) -> None:
        """Add the questions of a run that have a position, and count the others; read: the rows of
        the run."""
        scored = facts.scored(run, self.score)
        failed = {record.question_id for record in run.records if record.error is not None}
        for question, value, cluster in zip(
            scored.ids, scored.values, scored.clusters, strict=True
        ):
            position = (
                support_position(read.examples[question], read)
                if question in read.examples
                else None
            )
            if position is None:
                self.unmarked += 1
                continue
            self.answers.append((value, cluster, question in failed, run))
            self.positions.append(position)


def _options(run: StoredRun) -> Mapping[str, Any]:
    return run.config["dataset"].get("options") or {}


def _grouped_into_lines(
    runs: Sequence[tuple[StoredRun, Rows]], score: str | None
) -> list[_PlacedRuns]:
    """The runs as lines of the figure: runs that differ in nothing but the place of the support are
    one line."""
    lines: dict[str, _PlacedRuns] = {}
    for run, read in runs:
        options = _options(run)
        key = str(run.path)
        if any(options.get(name) is not None for name in _PLACES):
            other_options = {name: value for name, value in options.items() if name not in _PLACES}
            same = {name: value for name, value in run.config.items() if name != "limit"}
            key = digest({**same, "dataset": {**run.config["dataset"], "options": other_options}})
        lines.setdefault(key, _PlacedRuns(run, score or facts.headline(run))).add(run, read)
    return list(lines.values())


def _part_rows(line: _PlacedRuns, label: str) -> list[dict[str, Any]]:
    """A line's rows: the mean score for each part of the text, and for each range of distances."""
    cells: dict[tuple[str, int], list[int]] = {}
    for i, position in enumerate(line.positions):
        where, distance = position.where(), position.distance()
        cells.setdefault(("where", len(PARTS) if where is None else where), []).append(i)
        if distance is not None:
            cells.setdefault(("distance", _third(distance)), []).append(i)
    whole, left = line.unmarked + len(line.answers), []
    if line.unmarked:
        left = [
            f"{line.unmarked} of {whole} questions have no supporting part marked and are left out"
        ]
    dataset, placed, model = line.table_key()
    head = {"dataset": dataset, "placed": placed, "method": label, "model": model}
    rows = []
    for (study, part), chosen in sorted(
        cells.items(), key=lambda cell: (cell[0][0] == "distance", cell[0][1])
    ):
        values, clusters, failed, runs = zip(*(line.answers[i] for i in chosen), strict=True)
        used = {str(run.path): run for run in runs}
        rows.append(
            {
                **head,
                "study": study,
                **_part_columns(study, part),
                "score": line.score,
                **facts.mean_columns("mean", values, clusters, seed=int(line.first.config["seed"])),
                "n": len(chosen),
                "failed": sum(failed),
                "notes": tuple(
                    dict.fromkeys(
                        [*(note for run in used.values() for note in run_notes(run)), *left]
                    )
                ),
                "run": " + ".join(used),
            }
        )
    return rows


def _third(share: float) -> int:
    return min(int(share * len(PARTS)), len(PARTS) - 1)


def _part_columns(study: str, part: int) -> dict[str, Any]:
    """Name and bounds of a third; len(PARTS): the questions whose support is in several thirds."""
    if part == len(PARTS):
        return {"part": APART, "from": None, "to": None}
    low, high = part / len(PARTS), (part + 1) / len(PARTS)
    return {
        "part": PARTS[part] if study == "where" else f"{100 * low:.0f}-{100 * high:.0f} %",
        "from": low,
        "to": high,
    }


def sections(table: pd.DataFrame) -> list[Titled]:
    """A table for each data set, model, score and study, for people."""
    tables = []
    for (dataset, placed, model, _, study), rows in table.groupby(_SAME, sort=False):
        title = "support at" if study == "where" else "distance of the supports"
        hidden = ["placed", "study", "from", "to", "run"]
        tables.append(
            for_people(
                f"{_dataset_title(dataset, placed)} · {model} · {title}", rows, hidden, part=title
            )
        )
    return tables


def panels(table: pd.DataFrame) -> list[Panel]:
    """A drawing for each data set, model, score and study: a line a method, a point in the middle
    of each part."""
    panel_list = []
    drawn = table[table["from"].notna() & table["mean"].notna()].sort_values(
        "method", kind="stable"
    )
    for (dataset, placed, model, score, study), rows in drawn.groupby(_SAME, sort=False):
        middles = rows.assign(middle=(rows["from"] + rows["to"]) / 2)
        x, left = Axis(_NAMES[str(study)], limits=(0, 1)), Axis(f"{score} × 100", zero=True)
        lines = plot.lines(middles, "middle", "mean", 100)
        panel_list += plot.panels(f"{_dataset_title(dataset, placed)} · {model}", x, left, lines)
    return panel_list


def _dataset_title(dataset: object, placed: object) -> str:
    return f"{dataset}, support placed" if placed else str(dataset)
