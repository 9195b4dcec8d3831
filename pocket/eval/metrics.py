"""Turn the outcomes of scenes into rows of a table: a share or an area with its 95 % interval and its n.

question, choice     exact match: the reply is the answer, letter for letter
sufficiency          AUC of P(first label) over all probes; accuracy at 0.5; exact match of the answer after "Yes"
points               share of the true points that were written, and of the written ones that are not true
gathered             the same of names
summary              the same of sentences; shortened, entities, trial: names; relations: pairs; outline: titles
doubts, decomposed   the same of questions, compared by the names and numbers in each: other words are free;
                     elaborated likewise
triage, lookup       exact match; the floor of a choice among parts is one by their number
reflection           exact match of what follows the reasoning
followed, guessed    likelihood of a scored token: the geometric mean of its probability

Every scene has a text of its own, so scenes are independent; probes and points of one scene are resampled together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from harness.method.hooks import Scene, SceneOutcome
from harness.stats import bootstrap as stats
from pocket.eval.cells import Cell
from pocket.world.fact_graph import Asked
from pocket.world.facts import INVERSE, Fact, Path

AREA, EXACT, INVENTED, LIKELIHOOD = "AUC", "exact match", "invented", "likelihood of a token"
_BUCKETS = ((1, 1, "1"), (2, 2, "2"), (3, 4, "3-4"), (5, 8, "5-8"), (9, 10**9, "9+"))
_RESAMPLES = 1000
_NEVER = -20.0  # log-probability of a token that could not be scored
_ABOUT = re.compile(r"About (.+)\.")
_NAME = re.compile(r"#\d+|\b[A-Z]\w+")


@dataclass(frozen=True)
class Row:
    """One number of the exam.

    value: a share or an area in [0, 1], None where there was nothing to measure (n 0); low, high: its 95 % interval;
    n: of answers, probes, points or names; floor: the expected value of guessing without reading, if
    known; failed: scenes that ended with an error, counted as wrong.
    """

    skill: str
    asked: str
    text: str
    measure: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    floor: float | None = None
    failed: int = 0


@dataclass(frozen=True)
class Sitting:
    """A scene and its outcome; asked: its question, or None; facts: of the text."""

    scene: Scene
    outcome: SceneOutcome
    asked: Asked | None = None
    facts: tuple[Fact, ...] = ()


class _Table:
    """Makes the rows of one cell; values are (number of the scene, value)."""

    def __init__(self, skill: str, questions: str, text: str, sittings: Sequence[Sitting]) -> None:
        self.head = (skill, questions, text)
        self.failed = sum(s.outcome.failed for s in sittings)

    def share(self, name: str, values: Sequence[tuple[int, float]], floor: float | None = None) -> Row:
        interval = stats.interval([float(v) for _, v in values], [str(i) for i, _ in values])
        return Row(*self.head, name, interval.mean, interval.low, interval.high, interval.n, floor, self.failed)

    def area(self, probes: Sequence[tuple[int, float, bool]], floor: float | None) -> Row:
        value, low, high = _area(probes)
        return Row(*self.head, AREA, value, low, high, len(probes), floor, self.failed)


def measure(scene: str, skill: str, cell: Cell, sittings: Sequence[Sitting]) -> list[Row]:
    """The rows of one cell of a skill that is played in scenes of kind `scene`."""
    return _MEASURES.get(scene, _any)(_Table(skill, cell.asked, cell.text, sittings), sittings)


def _replies(sittings: Sequence[Sitting]) -> Iterator[tuple[int, str, str]]:
    """(number of the scene, what was written, the right reply)."""
    for i, s in enumerate(sittings):
        for written, right in zip(s.outcome.written, s.scene.replies, strict=False):
            yield i, written, right


def _exact(sittings: Sequence[Sitting]) -> list[tuple[int, bool]]:
    return [(i, written == right) for i, written, right in _replies(sittings)]


def _question(table: _Table, sittings: Sequence[Sitting]) -> list[Row]:
    kinds = {s.asked.kind for s in sittings if s.asked is not None}
    floor: float | None = None
    if kinds == {"comparison"}:  # one of the two that the question names
        floor = 0.5
    elif kinds == {"same"}:
        yes = float(np.mean([s.scene.replies == ("yes",) for s in sittings]))
        floor = max(yes, 1 - yes)
    return [table.share(EXACT, _exact(sittings), floor)]


def _choice(table: _Table, sittings: Sequence[Sitting]) -> list[Row]:
    options = [1 / len(s.scene.question.options or ("",)) for s in sittings]
    return [table.share(EXACT, _exact(sittings), float(np.mean(options)) if options else None)]


def _sufficiency(table: _Table, sittings: Sequence[Sitting]) -> list[Row]:
    probes = [
        (i, p, right)
        for i, s in enumerate(sittings)
        for p, right in zip(s.outcome.p_first, s.scene.verdicts, strict=False)
    ]
    often = float(np.mean([right for *_, right in probes])) if probes else 0.5
    accuracy = [(i, (p > 0.5) == right) for i, p, right in probes]
    answers = table.share(f"{EXACT} after yes", _exact(sittings))
    # The more was shown, the more often it is enough: what counting the parts would reach is the floor, not one half.
    counted = [(i, float(at), right) for i, s in enumerate(sittings) for at, right in enumerate(s.scene.verdicts)]
    floor = _order(counted)
    area = table.area(probes, None if floor is None else float(floor.mean()))
    return [area, table.share("accuracy at 0.5", accuracy, max(often, 1 - often)), answers]


def _lines(text: str) -> list[str]:
    return [line.strip().removeprefix("* ") for line in text.splitlines() if line.strip()]


def _names(text: str) -> list[str]:
    """ "* About A, B and C." -> A, B, C; a line of another form is taken whole, as a name that is none."""
    matches = [(line, _ABOUT.fullmatch(line)) for line in _lines(text)]
    return [name for line, m in matches for name in (re.split(", | and ", m.group(1)) if m else [line])]


def _kept(table: _Table, sittings: Sequence[Sitting], parts: Callable[[str], list[str]]) -> list[Row]:
    kept: list[tuple[int, bool]] = []
    invented: list[tuple[int, bool]] = []
    for i, written, right in _replies(sittings):
        theirs, true = parts(written), parts(right)
        kept += [(i, part in theirs) for part in true]
        invented += [(i, part not in true) for part in theirs]
    return [table.share("kept", kept), table.share(INVENTED, invented)]


def _any(table: _Table, sittings: Sequence[Sitting]) -> list[Row]:
    """A kind of scene the exam does not know: exact match of its replies, and its probes where it has any."""
    probed = any(s.scene.verdicts for s in sittings)
    return _sufficiency(table, sittings) if probed else _question(table, sittings)


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in re.split(r"(?<=[.!?])\s+", text.strip()) if sentence]


def _all_names(text: str) -> list[str]:
    return [name for sentence in _sentences(text) for name in _names(sentence)]


def _pairs(text: str) -> list[str]:
    """ "* A | B | A knows B." -> "A | B"."""
    return [" | ".join(line.split(" | ")[:2]) for line in _lines(text)]


def _titles(text: str) -> list[str]:
    return re.findall(r"<section: ([^<>]+)>", text)


def _named(text: str) -> list[str]:
    """The names in each line: capitalised words, except the first word of a line, and "#1"."""
    return [" ".join(sorted(_NAME.findall(line.partition(" ")[2]))) for line in _lines(text)]


def _chosen(table: _Table, sittings: Sequence[Sitting]) -> list[Row]:
    # The first text is the working memory.
    floor = float(np.mean([1 / max(1, len(s.scene.texts) - 1) for s in sittings])) if sittings else None
    return [table.share(EXACT, _exact(sittings), floor)]


def _reflected(table: _Table, sittings: Sequence[Sitting]) -> list[Row]:
    ends = (
        (i, written.partition("\nAction:")[2], right.partition("\nAction:")[2])
        for i, written, right in _replies(sittings)
    )
    return [table.share(f"{EXACT} after the reasoning", [(i, written == right) for i, written, right in ends])]


def _scored(table: _Table, sittings: Sequence[Sitting]) -> list[Row]:
    logs = [(i, log) for i, s in enumerate(sittings) for log in s.outcome.scored or [_NEVER]]
    row = table.share(LIKELIHOOD, logs)
    value, low, high = (None if log is None else float(np.exp(log)) for log in (row.value, row.low, row.high))
    return [replace(row, value=value, low=low, high=high)]


_MEASURES: dict[str, Callable[[_Table, Sequence[Sitting]], list[Row]]] = {
    "question": _question,
    "choice": _choice,
    "sufficiency": _sufficiency,
    "points": partial(_kept, parts=_lines),
    "gathered": partial(_kept, parts=_names),
    "summary": partial(_kept, parts=_sentences),
    "shortened": partial(_kept, parts=_all_names),
    "entities": partial(_kept, parts=_lines),
    "trial": partial(_kept, parts=_lines),
    "relations": partial(_kept, parts=_pairs),
    "outline": partial(_kept, parts=_titles),
    "doubts": partial(_kept, parts=_named),
    "decomposed": partial(_kept, parts=_named),
    "elaborated": partial(_kept, parts=_named),
    "triage": _chosen,
    "reflection": _reflected,
    "followed": _scored,
    "guessed": _scored,
}


def _order(probes: Sequence[tuple[int, float, bool]]) -> np.ndarray | None:
    """[right, wrong probes]: 1 where the right one has the larger value, 0.5 where they tie; None without both."""
    p, right = np.array([p for _, p, _ in probes]), np.array([r for *_, r in probes], dtype=bool)
    if not right.any() or right.all():
        return None
    high, low = p[right][:, None], p[~right][None, :]
    return np.asarray((high > low) + 0.5 * (high == low))


def _area(probes: Sequence[tuple[int, float, bool]]) -> tuple[float | None, float | None, float | None]:
    """Area under the ROC curve (the share of pairs in the right order, ties half), resampled by scenes."""
    order = _order(probes)
    if order is None:
        return None, None, None
    scene, right = np.array([i for i, _, _ in probes], dtype=np.int64), np.array([r for *_, r in probes], dtype=bool)
    value, count = float(order.mean()), len(np.unique(scene))
    if value in (0.0, 1.0):  # no spread was seen; as harness.stats.bootstrap.interval does it
        reach = 1 - 0.025 ** (1 / count)
        return value, max(0.0, value - reach), min(1.0, value + reach)
    last = int(scene.max()) + 1
    present = np.bincount(scene, minlength=last) > 0
    times = np.random.default_rng(0).multinomial(count, present / count, size=_RESAMPLES)
    a, b = times[:, scene[right]].astype(float), times[:, scene[~right]].astype(float)
    pairs = a.sum(1) * b.sum(1)
    areas = np.einsum("ri,ij,rj->r", a, order, b, optimize=True)[pairs > 0] / pairs[pairs > 0]
    ends = np.quantile(areas, [0.025, 0.975])
    return value, float(ends[0]), float(ends[1])


def alike(skill: str, sittings: Sequence[Sitting]) -> list[Row]:
    """Exact match of one- and two-hop answers by how many facts of the text have the question's relation.

    The floor is that of a model which finds the relation and then guesses: the mean of 1 / distinct answers.
    """
    rows: list[Row] = []
    for hops, label in ((1, "one hop"), (2, "two hops")):
        paths = [s for s in sittings if s.asked is not None and s.asked.kind == "path" and s.asked.hops == hops]
        counted = [(s, _answers(s)) for s in paths]
        for least, most, name in _BUCKETS:
            inside = [(s, answers) for s, answers in counted if least <= len(answers) <= most]
            table = _Table(skill, label, f"{name} alike", [s for s, _ in inside])
            floor = float(np.mean([1 / len(set(answers)) for _, answers in inside])) if inside else None
            rows.append(table.share(EXACT, _exact([s for s, _ in inside]), floor))
    return rows


def _answers(s: Sitting) -> list[str]:
    """The answer that each fact of the question's relation gives."""
    assert s.asked is not None
    assert isinstance(s.asked.query, Path)
    back = s.asked.query.steps[-1].startswith(INVERSE)
    return [f.subject if back else f.object for f in s.facts if f.relation == s.asked.relation]
