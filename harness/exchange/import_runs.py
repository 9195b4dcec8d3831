"""Answers that another tool has written, as an ordinary run folder.

    imported = prepare_import(run, dataset_name="hotpotqa")    all is matched and scored, nothing is written
    folder = imported.write(Path("results"), note)  a temporary folder, moved into its place at the end

Records hold what the file says. Its scores are "logged.NAME" beside those that are computed here. Its costs stand in
the phase "answer", since other tools do not divide them; a cost that is not known of every answered question is left
out, and FLOPs are not known.
"""

import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import scorers
from harness.config import presets
from harness.config.resolve import resolved
from harness.config.schema import ELSEWHERE, DatasetConfig, digest
from harness.datasets import Dataset, load
from harness.datasets.rows import made_id
from harness.engine.manifest import utc_now
from harness.engine.record_texts import with_texts
from harness.engine.scoring import scored_record
from harness.errors import ConfigError, UserError
from harness.exchange.foreign import COSTS, ForeignAnswer, ForeignRun
from harness.scorers.squad import exact, normalize_answer
from harness.storage.file_hash import file_hash
from harness.storage.files import save_error
from harness.storage.paths import run_path
from harness.storage.run_folder import MANIFEST, SUMMARY
from harness.storage.run_place import RunPlace
from harness.storage.run_schema import LOGGED
from harness.storage.run_store import RunStore
from harness.storage.serialize import json_values
from harness.storage.summary import summarise
from harness.types import VERSION, Example, Gold, Question, Record

_NOT_KNOWN = {"instruction", "max_answer_tokens", "answer_prefix", "demonstration"}  # how questions were asked there
_Pairs = Sequence[tuple[ForeignAnswer, Example]]


@dataclass(frozen=True)
class Imported:
    """A run that can be written, with the contents of its folder. lost: a sentence for every answer left out."""

    run: ForeignRun
    config: dict[str, Any]
    manifest: dict[str, Any]
    records: Sequence[dict[str, Any]]
    lost: Sequence[str]

    @property
    def place(self) -> Path:
        """The run's folder below the results."""
        return run_path(self.config["dataset"]["name"], self.run.method, self.run.model, self.manifest["hash"])

    def write(self, results: Path, note: Callable[[str], None]) -> Path:
        """Write a new run folder below `results` and return it; note: as in RunStore.open. Raises SaveError."""
        folder = results / self.place
        state = {"state": self.run.state, "n_asked": self.manifest["dataset"]["questions"]}
        numbers = summarise(self.records, (), form=self.config["dataset"]["format"])
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".import-", dir=folder.parent) as draft:
                with RunStore.open(RunPlace(Path(draft, "run")), None, note) as store:
                    store.replace(self.records)
                    store.write(MANIFEST, self.manifest)
                    store.write(SUMMARY, {**state, **numbers})
                    store.describe(self.config, {})  # last: a folder without it is no run
                os.replace(Path(draft, "run"), folder)
        except OSError as error:
            raise save_error(folder, error) from error
        return folder


def prepare_import(
    run: ForeignRun, dataset_name: str | None = None, data: str | None = None, own: Sequence[str] = ()
) -> Imported:
    """Match a run's answers to questions and score them; nothing is written.

    dataset_name: the data set whose questions these are, data: the file of its rows; own: scorers in place of its own.
    Raises UserError where that cannot be done, DataError naming the line.
    """
    config = _dataset_config(run, dataset_name, data, own)
    if problems := scorers.problems(config.scorers):
        raise ConfigError(problems)
    dataset = None if dataset_name is None else load(config, None)
    pairs, lost = (_own_questions(run.answers), []) if dataset is None else match_answers(run.answers, dataset.examples)
    if not pairs:
        raise UserError(f"no answer in {run.files[0]} is to a question of {config.name}: {lost[0]}")
    notes = list(run.lost)
    if lost:
        notes.append(f"{len(lost)} of {len(run.answers)} answers match no question and are left out")
    if dataset is None:
        notes.append("documents are not known, so intervals take each question for a document of its own")
    computed, records = _score_answers(config, pairs, dataset, notes)
    logged = list(dict.fromkeys(LOGGED + name for answer in run.answers for name in answer.scores))
    if not (names := [*computed, *logged]):
        why = "; ".join(["name some with --scorers (harness list scorers)", *run.lost])
        raise UserError(f"{run.files[0]} holds no score; {why}")
    settings = {
        "method": {"name": run.method, "implementation": ELSEWHERE, "mark": "made elsewhere"},
        "dataset": {**config.model_dump(mode="json", exclude=_NOT_KNOWN), "scorers": names},
        "model": {"name": run.model},
        "seed": 0,
    }
    files = [{"name": path.name, "sha256": file_hash(path)} for path in run.files]
    rows = {} if dataset is None else {"fingerprint": dataset.fingerprint, "source": dataset.source}
    manifest = {
        "started": run.started,
        "method": run.method,
        "hash": digest([settings, files, rows])[:8],
        "dataset": {"name": config.name, "questions": max(run.asked, len(run.answers)), **rows},
        "scorers": {**{name: scorers.version(name) for name in computed}, **dict.fromkeys(logged, run.tool)},
        "packages": {"longdoc-harness": VERSION},
        "warnings": notes,
        "imported": {"tool": run.tool, "files": files, "at": utc_now(), "told": run.told, "left_out": lost},
    }
    return Imported(run, settings, manifest, records, lost)


def _dataset_config(run: ForeignRun, name: str | None, data: str | None, own: Sequence[str]) -> DatasetConfig:
    """The data set's preset with the scorers to use; one made up where none is named and the file's tool has none."""
    if data is not None and name is None:
        raise UserError("--data holds the rows of a data set; name it with --dataset")
    if (name := name or _preset_of(run)) is None:
        # As harness.config.validation.dataset_of_run reads it again; there may be no scorers.
        made = DatasetConfig(name=run.dataset, format=ELSEWHERE, instruction="", max_answer_tokens=1, scorers=("",))
        return made.model_copy(update={"scorers": tuple(own)})
    preset: DatasetConfig = resolved("datasets", dataset=name, **({"data": data} if data else {}))
    # What a reader was shown is not known.
    chosen = own or [one for one in preset.scorers if scorers.lookup(one).kind != "shown"]
    return preset.model_copy(update={"scorers": tuple(chosen), "answer_prefix": None})


def _preset_of(run: ForeignRun) -> str | None:
    """The name of the preset whose format and subset are those of the tool's own data set; None without one."""
    for name in presets.names("datasets") if run.form else ():
        values = {key: value for _, layer in presets.read("datasets", name) for key, value in layer.items()}
        if values.get("format") == run.form and values.get("subset") in (None, run.dataset):
            return name
    return None


def match_answers(answers: Sequence[ForeignAnswer], examples: Sequence[Example]) -> tuple[_Pairs, list[str]]:
    """Pair the answers with their questions; also returns a sentence for each answer without one.

    By id, where nothing that the file says speaks against it: the same id can be another question in another version
    of a data set. Else by the normalised question with a right answer in common; where the file has no question, by a
    right answer and the row's length. One that fits several is left out. Raises DataError for two to one question.
    """
    by_id = {example.question.id: example for example in examples}
    by_gold: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        for gold in set(map(normalize_answer, example.gold.answers)):
            by_gold[gold].append(example)
    found: dict[str, tuple[ForeignAnswer, Example]] = {}
    lost = []
    for answer in answers:
        fitting = [by_id[answer.id]] if answer.id in by_id and _is_about(answer, by_id[answer.id]) else []
        if not fitting:
            length = answer.extra.get("length")
            golds = map(normalize_answer, answer.answers)
            near = {e.question.id: e for gold in golds for e in by_gold[gold] if _is_about(answer, e)}
            fitting = [e for e in near.values() if answer.question or (length and length == e.gold.extra.get("length"))]
        if len(fitting) != 1:
            told = answer.id or (answer.question or "")[-60:] or " / ".join(answer.answers)[:60]
            lost.append(f"{answer.place}: '{told}' fits {'several questions' if fitting else 'no question'}")
            continue
        key = fitting[0].question.id
        if key in found:
            raise answer.place.error(None, f"answers question '{key}', as {found[key][0].place} does; keep one of them")
        found[key] = answer, fitting[0]
    return list(found.values()), lost


def _is_about(answer: ForeignAnswer, example: Example) -> bool:
    """Whether question and right answers, as far as the file has them, are those of the example."""
    if normalize_answer(example.question.text) not in normalize_answer(answer.question or example.question.text):
        return False
    return not answer.answers or any(exact(a, gold) for a in answer.answers for gold in example.gold.answers)


def _own_questions(answers: Sequence[ForeignAnswer]) -> _Pairs:
    """Pair the answers with the file's own questions, making up missing ids. Raises DataError for no right answer."""
    pairs: dict[str, tuple[ForeignAnswer, Example]] = {}
    for answer in answers:
        if not answer.answers:
            raise answer.place.error(None, "has no right answer; name the data set with --dataset")
        key = answer.id or made_id("q", digest([answer.question, answer.answers, answer.extra.get("length")]))
        while key in pairs:  # other questions with the same right answers
            key += "-again"
        question = Question(key, answer.question or "", (), answer.options)
        pairs[key] = answer, Example(question, Gold(answer.answers, extra=answer.extra))
    return list(pairs.values())


def _score_answers(
    config: DatasetConfig, pairs: _Pairs, dataset: Dataset | None, notes: list[str]
) -> tuple[Sequence[str], list[dict[str, Any]]]:
    """Return (scorers that do not flag all of these answers, records with their scores). Adds sentences to `notes`."""

    def flag(name: str, answer: ForeignAnswer, example: Example) -> str | None:
        return scorers.score_record([name], answer.prediction, (), example.gold).flags.get(name)

    answered = [pair for pair in pairs if pair[0].error is None]
    judged = answered or pairs
    useless = {name: flag(name, *pairs[0]) for name in config.scorers if all(flag(name, *pair) for pair in judged)}
    notes += [f"{name} scores none of these answers: {why}" for name, why in useless.items()]
    config = config.model_copy(update={"scorers": tuple(name for name in config.scorers if name not in useless)})
    told = {name: sum(getattr(answer, name) is not None for answer, _ in answered) for name in COSTS}
    notes += [f"{n} is not known of all questions, so it is left out" for n, c in told.items() if 0 < c < len(answered)]
    known = {name for name, count in told.items() if count == len(answered)}
    failed = dict.fromkeys([name for answer, _ in answered for name in answer.scores], 0.0)
    records = []
    for answer, example in pairs:
        row = scored_record(_record(answer, example, known, dataset), config, example.gold)
        logged = {LOGGED + name: value for name, value in (answer.scores if answer.error is None else failed).items()}
        records.append({**row, "scores": {**row["scores"], **logged}})
    return config.scorers, records


def _record(answer: ForeignAnswer, example: Example, known: set[str], dataset: Dataset | None) -> dict[str, Any]:
    """The record of an answer. known: the costs that are known of every answered question."""
    question, costs = example.question, answer.model_dump(include=known, exclude_none=True)
    record = Record(
        question_id=question.id,
        question=question.text or None,
        options=question.options,
        document_ids=question.document_ids,
        gold=example.gold,
        prediction=answer.prediction,
        scores={},
        usage={"answer": {"uncounted": 1, **costs}},
        error=None if answer.error is None else {"type": "Elsewhere", "message": answer.error},
    )
    row: dict[str, Any] = json_values(record, lost=[])
    return row if dataset is None else with_texts(row, example, dataset.documents)[0]
