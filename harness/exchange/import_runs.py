"""Answers that another tool has written, as an ordinary run folder.

    imported = prepare(read(path), Choice(dataset="hotpotqa"))    all is matched and scored, nothing is written
    folder = imported.write(Path("results"), note)                a temporary folder, moved into its place at the end

Records hold what the file says. Its scores are "logged.NAME" beside those that are computed here. Its costs stand in
the phase "answer", since other tools do not divide them; a cost that is not known of every answered question is left
out, and FLOPs are not known. manifest.json has "imported": the tool, its files with their checksums, what it printed
and what was left out.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness import scorers
from harness.config import presets
from harness.config.resolve import part
from harness.config.schema import ELSEWHERE, DatasetConfig, digest
from harness.datasets import load
from harness.datasets.base import Dataset
from harness.datasets.rows import made_id
from harness.engine.manifest import now
from harness.engine.record_texts import with_texts
from harness.engine.scoring import scored_record
from harness.errors import ConfigError, UserError
from harness.exchange.foreign import COSTS, ForeignAnswer, ForeignRun
from harness.exchange.matching import match
from harness.storage.file_hash import file_hash
from harness.storage.files import save_error
from harness.storage.paths import inside
from harness.storage.place import Place
from harness.storage.run_folder import MANIFEST, SUMMARY
from harness.storage.run_schema import LOGGED
from harness.storage.run_store import RunStore
from harness.storage.summary import summarise
from harness.types import VERSION, Example, Gold, Question

_NOT_KNOWN = ("instruction", "max_answer_tokens", "answer_prefix", "demonstration")  # how questions were asked there


@dataclass(frozen=True)
class Choice:
    """What a user chose: the data set whose questions these are, the file of its rows, names, further scorers."""

    dataset: str | None = None
    data: str | None = None
    model: str | None = None
    method: str | None = None
    scorers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Imported:
    """A run that can be written. lost: a sentence for everything that was left out."""

    run: ForeignRun
    config: dict[str, Any]
    manifest: dict[str, Any]
    records: Sequence[dict[str, Any]]
    lost: Sequence[str]

    @property
    def place(self) -> Path:
        """The run's folder below the results."""
        names = [str(self.config[key]["name"]) for key in ("method", "model")]
        return inside(
            Path(),
            str(self.config["dataset"]["name"]).replace("/", "~"),
            "--".join([*names, self.manifest["hash"]]).replace("/", "~"),
        )

    def means(self) -> dict[str, tuple[float, float]]:
        """Score -> mean and standard error (n - 1 in the denominator) over the questions that have it.

        Failed questions are left out, as the other tools do; the tables of this project count them 0.
        """
        rows = [row["scores"] for row in self.records if row["error"] is None]
        found = {}
        for name in dict.fromkeys(name for row in rows for name in row):
            values = [row[name] for row in rows if name in row]
            spread = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
            found[name] = statistics.fmean(values), spread
        return found

    def write(self, results: Path, note: Callable[[str], None]) -> Path:
        """Write the run folder, which must not be there yet, and return it. Raises SaveError."""
        folder = results / self.place
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=".import-", dir=folder.parent))
        except OSError as error:
            raise save_error(folder, error) from error
        try:
            with RunStore.open(Place(draft), None, note) as store:
                store.replace(self.records)
                store.write(MANIFEST, self.manifest)
                store.write(SUMMARY, self._summary())
                store.describe(self.config, {})  # last: a folder without it is no run
            os.replace(draft, folder)
        except OSError as error:
            raise save_error(folder, error) from error
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return folder

    def _summary(self) -> dict[str, Any]:
        numbers = summarise(self.records, (), form=self.config["dataset"]["format"], unique=True)
        return {"state": self.run.state, "n_asked": self.manifest["imported"]["asked"], **numbers}


def prepare(run: ForeignRun, choice: Choice) -> Imported:
    """Match and score the answers of `run`. Raises UserError where that cannot be done, DataError naming the line."""
    run = replace(run, model=choice.model or run.model, method=choice.method or run.method)
    config = _dataset_config(run, choice)
    if problems := scorers.problems(config.scorers):
        raise ConfigError(problems)
    dataset = load(config, None) if choice.dataset is not None else None
    lost: list[str] = []
    if dataset is None:
        pairs = _own_questions(run.answers)
        if unsure := [answer for answer, example in pairs if not example.gold.answers]:
            raise unsure[0].place.error(None, "has no right answer; name the data set with --dataset")
    else:
        pairs, lost = match(run.answers, dataset.examples)
        if not pairs:
            raise UserError(f"no answer in {run.files[0]} is to a question of {config.name}: {lost[0]}")
    known = {name for name in COSTS if all(name in a.costs for a in run.answers if a.error is None)}
    config, records, unscored = _scored(config, [_record(*pair, known, dataset) for pair in pairs], pairs)
    logged = dict.fromkeys(LOGGED + name for answer in run.answers for name in answer.scores)
    if not (names := (*config.scorers, *logged)):
        why = f" ({'; '.join(run.lost)})" if run.lost else ""
        raise UserError(f"{run.files[0]} holds no score{why}; name some with --scorers (harness list scorers)")
    stored = {k: v for k, v in config.model_dump(mode="json").items() if k not in _NOT_KNOWN} | {"scorers": list(names)}
    partly = [name for name in COSTS if name not in known and any(name in a.costs for a in run.answers)]
    warnings = [*run.lost, *unscored, *(f"{name} is not known of all questions, so it is left out" for name in partly)]
    if lost:
        warnings.append(f"{len(lost)} of {len(run.answers)} answers match no question and are left out")
    if dataset is None:
        warnings.append("documents are not known, so intervals take each question for a document of its own")
    settings = {
        "method": {"name": run.method, "implementation": ELSEWHERE, "mark": "made elsewhere"},
        "dataset": stored if config.scorers else {**stored, "scorers": list(logged)},
        "model": {"name": run.model},
        "seed": 0,
        "failed": "zero",
    }
    manifest = _manifest(run, settings, dataset, list(logged), warnings, lost)
    return Imported(run, settings, manifest, records, lost)


def _dataset_config(run: ForeignRun, choice: Choice) -> DatasetConfig:
    """The data set's preset with the scorers to use; one made up where none is named and the file's tool has none."""
    name = choice.dataset or _preset_of(run)
    if choice.data is not None and choice.dataset is None:
        raise UserError("--data holds the rows of a data set; name it with --dataset")
    if name is None:
        # As harness.config.validation.dataset_of_run reads it again; scorers may be none so far.
        made = DatasetConfig(name=run.dataset, format=ELSEWHERE, instruction="", max_answer_tokens=1, scorers=(LOGGED,))
        return made.model_copy(update={"scorers": choice.scorers})
    preset: DatasetConfig = part("datasets", dataset=name, **({"data": choice.data} if choice.data else {}))
    # What a reader was shown is not known.
    own = choice.scorers or [one for one in preset.scorers if scorers.lookup(one).kind != "shown"]
    return preset.model_copy(update={"scorers": tuple(own), "answer_prefix": None, "demonstration": None})


def _preset_of(run: ForeignRun) -> str | None:
    """The data set of this project that has the format and the name that the tool's own data set has there."""
    for name in presets.names("datasets") if run.form else ():
        values: dict[str, Any] = {}
        for _, layer in presets.read("datasets", name):
            values |= layer
        if values.get("format") == run.form and values.get("subset") in (None, run.dataset):
            return name
    return None


def _own_questions(answers: Sequence[ForeignAnswer]) -> list[tuple[ForeignAnswer, Example]]:
    """The answers with the questions that the file itself has.

    Where it has no ids, an id follows from question, right answers and length, so that it is the same in another
    order; questions that share all three are numbered.
    """
    counts: Counter[str] = Counter()
    pairs = []
    for answer in answers:
        key = answer.id
        if key is None:
            key = made_id("q", digest([answer.question, answer.answers, answer.extra.get("length")]))
            counts[key] += 1
            key += f"-{counts[key]}" if counts[key] > 1 else ""
        question = Question(key, answer.question or "", (), answer.options)
        pairs.append((answer, Example(question, Gold(answer.answers, extra=dict(answer.extra)))))
    return pairs


def _record(answer: ForeignAnswer, example: Example, known: set[str], dataset: Dataset | None) -> dict[str, Any]:
    question = example.question
    row: dict[str, Any] = {
        "question_id": question.id,
        "question": question.text or None,
        "options": None if question.options is None else list(question.options),
        "document_ids": list(question.document_ids),
        "gold": asdict(example.gold),
        "prediction": answer.prediction,
        "scores": {},
        "usage": {"answer": {"uncounted": 1, **{name: answer.costs[name] for name in known if name in answer.costs}}},
        "shown": [],
        "stop_reason": "",
        "steps": [],
        "truncated": None,
        "error": None if answer.error is None else {"type": "Elsewhere", "message": answer.error},
        "notes": {},
    }
    return row if dataset is None else with_texts(row, example, dataset.documents)[0]


def _scored(
    config: DatasetConfig, rows: Sequence[dict[str, Any]], pairs: Sequence[tuple[ForeignAnswer, Example]]
) -> tuple[DatasetConfig, list[dict[str, Any]], list[str]]:
    """The records with their scores; a scorer that can score no answer is left out, with a sentence."""
    scored = [scored_record(row, config, example.gold) for row, (_, example) in zip(rows, pairs, strict=True)]
    flags = [row["notes"].get("flags") or {} for row in scored if row["error"] is None]
    useless = {name: flags[0][name] for name in config.scorers if flags and all(name in one for one in flags)}
    if useless:
        config = config.model_copy(update={"scorers": tuple(n for n in config.scorers if n not in useless)})
        scored = [scored_record(row, config, example.gold) for row, (_, example) in zip(rows, pairs, strict=True)]
    names = dict.fromkeys(name for answer, _ in pairs for name in answer.scores)
    for row, (answer, _) in zip(scored, pairs, strict=True):
        told = dict.fromkeys(names, 0.0) if row["error"] is not None else answer.scores
        row["scores"] = {**row["scores"], **{LOGGED + name: value for name, value in told.items()}}
    return config, scored, [f"{name} scores none of these answers: {why}" for name, why in useless.items()]


def _manifest(
    run: ForeignRun,
    settings: Mapping[str, Any],
    dataset: Dataset | None,
    logged: Sequence[str],
    warnings: Sequence[str],
    lost: Sequence[str],
) -> dict[str, Any]:
    files = [{"name": path.name, "sha256": file_hash(path)} for path in run.files]
    own = [name for name in settings["dataset"]["scorers"] if not name.startswith(LOGGED)]
    named = {"name": settings["dataset"]["name"], "questions": len(run.answers)}
    rows = {} if dataset is None else {"fingerprint": dataset.fingerprint, "revision": dataset.revision}
    return {
        "started": run.started,
        "method": run.method,
        "hash": digest([settings, files, rows])[:8],
        "models": {},
        "dataset": {**named, **rows, "source": run.files[0].name if dataset is None else dataset.source},
        "scorers": {**{name: scorers.version(name) for name in own}, **dict.fromkeys(logged, run.tool)},
        "packages": {"longdoc-harness": VERSION},
        "warnings": list(warnings),
        "imported": {
            "tool": run.tool,
            "files": files,
            "at": now(),
            "asked": max(run.asked or 0, len(run.answers)),
            "told": {name: asdict(told) for name, told in run.told.items()},
            "left_out": list(lost),
        },
    }
