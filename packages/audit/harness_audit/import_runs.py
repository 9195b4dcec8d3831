"""Answers that another tool has written, as an ordinary run folder.

    imported = prepare_import(run, QuestionsOf(dataset="hotpotqa"))    all is read and matched, nothing is written
    write_all(imported, Path("results"), note)      in temporary folders, moved into their places at the end

A file with several answers to a question (epochs, repeats) becomes as many runs, which differ in
their seed.

Records hold what the file says. Its scores are "logged.NAME" beside those that are computed here.
Its costs stand in the phase "answer", since other tools do not divide them; a cost that is not
known of every answered question is left out, and FLOPs are not known.
"""

import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, NamedTuple, cast

from harness import scorers
from harness.api.option import choice
from harness.config.layers import FOLDER_DATASET, Choices
from harness.config.resolve import resolve_dataset
from harness.config.schema import MADE_ELSEWHERE, DatasetConfig, json_sha256
from harness.cost.usage import PhaseUsage
from harness.datasets import Dataset, load
from harness.datasets.rows import id_from_text
from harness.engine.manifest import utc_now
from harness.engine.scoring import score_record
from harness.errors import UserError
from harness.scorers.squad import exact, normalize_answer
from harness.storage.added_texts import with_dataset_texts
from harness.storage.file_hash import file_hash
from harness.storage.files import save_error
from harness.storage.manifest_file import DatasetRows, Import, ImportedFile, RunManifest
from harness.storage.packed_records import PackedRecords
from harness.storage.paths import run_path
from harness.storage.records import StoredRecord
from harness.storage.run_files import RUN
from harness.storage.run_store import RunStore
from harness.storage.run_summary import summarise
from harness.storage.serialize import json_values
from harness.storage.stored_config import StoredConfig
from harness.storage.summary_file import RunSummary
from harness.types import LOGGED_SCORE_PREFIX, VERSION, Example, Gold, Question
from harness_audit.foreign import COSTS, Answers, ForeignAnswer, ForeignRun

_SETTINGS_OF_ASKING = {"instruction", "max_answer_tokens", "answer_prefix", "demonstration"}
"""Settings of a data set that say how questions were asked, which is not known."""
_RUN_YAML_OF_DRAFT = "run.yaml-of-draft"
"""The name of run.yaml in a folder that no command should take for a run yet."""


class _MatchedAnswer(NamedTuple):
    """An answer of another tool with the question that it is to."""

    answer: ForeignAnswer
    example: Example


@dataclass(frozen=True)
class Imported:
    """A run that is ready to be written: the contents of its folder.

    Args:
        run: What the other tool's file says, without the answers.
        config: What goes into run.yaml.
        manifest: What goes into manifest.json.
        records: What goes into records.jsonl.
        left_out: A sentence for every answer that is left out.
    """

    run: ForeignRun
    config: StoredConfig
    manifest: RunManifest
    records: PackedRecords
    left_out: Sequence[str]

    @property
    def place(self) -> Path:
        """The run's folder, relative to the folder of results."""
        return run_path(
            self.config.dataset.name, self.run.method, self.run.model, str(self.manifest.hash)
        )

    def write_draft(self, folder: Path, note: Callable[[str], None], stack: ExitStack) -> Path:
        """Write the run into a temporary folder, which commands do not take for a run yet: its
        run.yaml has another name.

        Args:
            folder: Where the run will be; the temporary folder is made beside it.
            note: Called with a sentence for each repair that the store makes.
            stack: Deletes the temporary folder when it is closed.

        Returns:
            The temporary folder with the run.
        """
        counts = RunSummary(state=self.run.state, n_asked=self.manifest.dataset.questions)
        if self.left_out:
            counts = counts.with_values(n_left_out=len(self.left_out))
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.TemporaryDirectory(prefix=".import-", dir=folder.parent)
        draft_folder = Path(stack.enter_context(temporary), "run")
        with RunStore.open(draft_folder, None, note) as store:
            store.replace_records(self.records)
            store.write_manifest(self.manifest)
            # The intervals of all repeats are drawn by one seed.
            numbers = summarise(store.records(), (), self.config.with_values(seed=0))
            store.write_run_yaml(self.config, {})
            store.write_summary(counts.with_numbers(numbers))
        # A folder without it is no run, and a killed import leaves its drafts.
        (draft_folder / RUN).rename(draft_folder / _RUN_YAML_OF_DRAFT)
        return draft_folder


def write_all(runs: Sequence[Imported], results: Path, note: Callable[[str], None]) -> list[Path]:
    """Write new run folders, all or none: first each into a temporary folder, then all are moved.

    Args:
        runs: The runs.
        results: The folder of results that they are below.
        note: Called with a sentence for each repair that the store makes.

    Returns:
        The folder of each run.

    Raises:
        SaveError: Something cannot be written.
        UserError: A scorer fails.
    """
    folders = [results / run.place for run in runs]
    folder = results  # the one that is being written, for errors
    with ExitStack() as stack:
        try:
            draft_folders = []
            for run, folder in zip(runs, folders, strict=True):
                draft_folders.append(run.write_draft(folder, note, stack))
            for draft_folder, folder in zip(draft_folders, folders, strict=True):
                # Only now is it a folder that commands take for a run.
                (draft_folder / _RUN_YAML_OF_DRAFT).rename(draft_folder / RUN)
                os.replace(draft_folder, folder)
        except OSError as error:
            raise save_error(folder, error, "--out") from error
    return folders


@dataclass(frozen=True)
class QuestionsOf:
    """Whose questions the answers are to: those of a data set, or of a file with questions about a
    folder of documents. With all None, the answers' own file has the questions."""

    dataset: Annotated[
        str | None,
        choice(
            "--dataset NAME",
            "Data set whose questions these are; answers are matched with its rows.",
            complete="datasets",
        ),
    ] = None
    data: Annotated[
        str | None, choice("--data PATH", "Local file or folder to load its rows from.")
    ] = None
    documents: Annotated[
        str | None, choice("--documents DIR", "Folder of documents of your own; with --questions.")
    ] = None
    questions: Annotated[
        str | None, choice("--questions FILE", "Questions about --documents that were answered.")
    ] = None
    columns: Annotated[
        str | None,
        choice("--columns NAME=COLUMN,...", "What --questions calls question, answer and others."),
    ] = None

    @property
    def dataset_name(self) -> str | None:
        """The name of the data set that the questions are of; None where the answers' own file has
        them.

        Raises UserError for --data without --dataset.
        """
        if self.documents or self.questions or self.columns:
            return self.dataset or FOLDER_DATASET
        if self.data is not None and self.dataset is None:
            raise UserError("--data holds the rows of a data set; name it with --dataset")
        return self.dataset

    def config(self, name: str) -> DatasetConfig:
        """The settings of the data set `name` with these choices. Raises UserError where there are
        none."""
        choices = {key: value for key, value in asdict(self).items() if value is not None}
        config: DatasetConfig = resolve_dataset(Choices(**{**choices, "dataset": name})).value
        return config


def prepare_import(
    run: ForeignRun, questions: QuestionsOf | None = None, scorer_names: Sequence[str] = ()
) -> list[Imported]:
    """Match the answers of another tool's file to questions and score them; nothing is written.

    Args:
        run: What the file says.
        questions: Whose questions the answers are to; None: the file has its own.
        scorer_names: Names of scorers to use in place of the data set's.

    Returns:
        A run for each repeat: the first answers to all questions, the second ones, ...

    Raises:
        UserError: The data set cannot be used, or no answer fits a question or has a score.
        DataError: A line of the file cannot be used.
    """
    questions = questions or QuestionsOf()
    config = _dataset_config(run, questions, scorer_names)
    dataset = None
    if questions.dataset_name is not None:
        dataset = load(config, None)
        # The questions of a folder of the user's are called as the folder.
        config = config.model_copy(update={"name": dataset.name})
    return [_prepare_repeat(run, repeat, config, dataset) for repeat in run.repeats]


def _prepare_repeat(
    run: ForeignRun, repeat: int, config: DatasetConfig, dataset: Dataset | None
) -> Imported:
    """The run of those answers that have the number `repeat` among the answers to their question,
    matched to questions and scored, with what its run.yaml and manifest.json will hold. The scores
    of the other tool become scores named "logged.NAME".

    Args:
        run: What the other tool's file says.
        repeat: The number, from 1.
        config: The data set, with the scorers to use.
        dataset: Its rows; None where the file has the questions.

    Raises:
        UserError: No answer fits a question, or none has a score.
    """
    answers = _answers_of_repeat(run, repeat)
    matched = _match_to_questions(run, answers, config, dataset)
    notes = [*run.left_out_notes, *matched.notes]
    logged_names = [LOGGED_SCORE_PREFIX + name for name in run.scores]
    # Also adds its sentences to `notes`.
    scored = _score_answers_and_note(config, matched.pairs, dataset, logged_names, notes)
    score_names = [*scored.scorer_names, *logged_names]
    if not score_names:
        advice = "; ".join(["name some with --scorers (harness list scorers)", *run.left_out_notes])
        raise UserError(f"{run.files[0]} holds no score; {advice}")
    settings = _run_yaml_values(run, repeat, config, score_names)
    rows_identity = _identity_of_rows(dataset)
    imported = _import_facts(run, matched.left_out)
    # Not every file says how many questions there were to answer.
    n_questions = max(run.n_to_answer, len(answers))
    dataset_rows = DatasetRows(name=config.name, questions=n_questions)
    manifest = RunManifest(
        started=run.started,
        method=run.method,
        hash=_run_hash(settings, imported.files, rows_identity),
        dataset=dataset_rows.with_values(**rows_identity),
        scorers=_scorer_versions(scored.scorer_names, logged_names, run.tool),
        packages={"longdoc-harness": VERSION},
        warnings=notes,
        imported=imported,
    )
    return Imported(
        run=replace(run, answers=Answers()),  # the answers are in `records` now
        config=StoredConfig.from_json(settings),
        manifest=manifest,
        records=scored.records,
        left_out=matched.left_out,
    )


def _import_facts(run: ForeignRun, left_out: list[str]) -> Import:
    """What the manifest says of an import: the tool, its files with checksums, the time, the means
    that the tool printed, and which answers were left out.

    Args:
        run: What the other tool's file says.
        left_out: A sentence for each answer that is left out.
    """
    return Import(
        tool=run.tool,
        files=[ImportedFile(name=path.name, sha256=file_hash(path)) for path in run.files],
        at=utc_now(),
        told=run.printed_means,
        left_out=left_out,
    )


def _run_hash(
    settings: Mapping[str, object],
    files: Sequence[ImportedFile],
    rows_identity: Mapping[str, str],
) -> str:
    """The eight characters of a hash by which the folder of an imported run is known.

    Args:
        settings: The values of its run.yaml.
        files: The files that it was imported from, with their checksums.
        rows_identity: What identifies the data set's rows.
    """
    hashed = [settings, [file.to_json() for file in files], rows_identity]
    return json_sha256(hashed)[:8]


def _answers_of_repeat(run: ForeignRun, repeat: int) -> Answers:
    """The answers with the number `repeat`, from 1, among the answers to their question."""
    if len(run.repeats) == 1:
        return run.answers
    return Answers(answer for answer in run.answers if answer.repeat == repeat)


def _scorer_versions(
    computed: Sequence[str], logged: Sequence[str], tool: str
) -> dict[str, str | None]:
    """Name of each score -> the version of what gave it: {"f1": "1", "logged.acc": "inspect_ai
    0.3"}.

    Args:
        computed: Scores that were computed here.
        logged: Scores of the other tool, "logged.NAME".
        tool: The other tool, with its version if that is known.
    """
    versions: dict[str, str | None] = {name: scorers.version(name) for name in computed}
    versions.update(dict.fromkeys(logged, tool))
    return versions


def _identity_of_rows(dataset: Dataset | None) -> dict[str, str]:
    """What identifies a data set's rows, in the manifest and in the hash: {"fingerprint": ..., "source": ...}; {} where
    the questions are those of the imported file."""
    if dataset is None:
        return {}
    return {"fingerprint": dataset.fingerprint, "source": dataset.source}


def _run_yaml_values(
    run: ForeignRun, repeat: int, config: DatasetConfig, scores: Sequence[str]
) -> dict[str, object]:
    """The settings of an imported run, in the form of run.yaml: {"method": ..., "dataset": ...,
    "model": ..., "seed": 0}.

    Args:
        run: What the other tool's file says.
        repeat: The number of its answers among those to their question, from 1; gives the seed.
        config: The data set; how it asks questions is left out, as another tool asked them.
        scores: Names of the scores.
    """
    return {
        "method": {"name": run.method, "implementation": MADE_ELSEWHERE, "mark": "imported"},
        "dataset": {
            **config.model_dump(mode="json", exclude=_SETTINGS_OF_ASKING),
            "scorers": scores,
        },
        "model": {"name": run.model},
        "seed": repeat - 1,
    }


@dataclass(frozen=True)
class _Matched:
    """Answers with their questions.

    Args:
        pairs: The answers that fit a question.
        left_out: A sentence for each of the others.
        notes: Sentences on both.
    """

    pairs: Iterable[_MatchedAnswer]
    left_out: list[str]
    notes: list[str]


def _match_to_questions(
    run: ForeignRun, answers: Answers, config: DatasetConfig, dataset: Dataset | None
) -> _Matched:
    """Find the question of each answer.

    Args:
        run: What the other tool's file says.
        answers: The answers, of one repeat.
        config: The data set.
        dataset: Its rows; None where the file has the questions.

    Raises:
        UserError: No answer fits a question.
    """
    if dataset is None:
        note = "documents are not known, so intervals take each question for a document of its own"
        return _Matched(pairs=_OwnQuestions(answers), left_out=[], notes=[note])
    pairs, left_out = match_answers(answers, dataset.examples)
    if not pairs:
        raise UserError(
            f"no answer in {run.files[0]} is to a question of {config.name}: {left_out[0]}"
        )
    notes: list[str] = []
    if left_out:
        notes.append(
            f"{len(left_out)} of {len(answers)} answers match no question and are left out"
        )
    return _Matched(pairs=pairs, left_out=left_out, notes=notes)


def _dataset_config(
    run: ForeignRun, questions: QuestionsOf, scorer_names: Sequence[str]
) -> DatasetConfig:
    """The settings of the data set with the scorers to use: its preset, without the phrase that a
    final answer is found by (`answer_prefix`: the other tool has cut its replies already); or where
    no data set is named, settings made up for the questions of the file.

    Args:
        run: What the other tool's file says.
        questions: Whose questions the answers are to.
        scorer_names: Names of scorers to use in place of the data set's; empty for the data set's
            own, without those that need to know what a reader was shown.
    """
    name = questions.dataset_name
    if name is None:
        # The values that harness.config.yaml_tree.dataset_of_run fills in when it reads such a run.
        # The scorers are set apart, as there may be none, which DatasetConfig refuses.
        made_up = DatasetConfig(
            name=run.dataset,
            format=MADE_ELSEWHERE,
            instruction="",
            max_answer_tokens=1,
            scorers=("",),
        )
        return made_up.model_copy(update={"scorers": tuple(scorer_names)})
    preset = questions.config(name)
    chosen_names = scorer_names
    if not chosen_names:  # what a reader was shown is not known
        chosen_names = [name for name in preset.scorers if scorers.lookup(name).kind != "shown"]
    return preset.model_copy(update={"scorers": tuple(chosen_names), "answer_prefix": None})


def match_answers(
    answers: Iterable[ForeignAnswer], examples: Sequence[Example]
) -> tuple[list[_MatchedAnswer], list[str]]:
    """Pair answers of another tool with the questions of a data set.

    An answer fits the question with its id, unless question or right answer in the file speak
    against it (the same id can be another question in another version of a data set). Else it fits
    questions with the same normalised text and a right answer in common; one that fits several is
    left out.

    Args:
        answers: The answers, at most one to a question.
        examples: The rows of the data set.

    Returns:
        (pairs of an answer and its question, a sentence for each answer that is left out).

    Raises:
        DataError: Two answers fit one question.
    """
    example_by_id = {example.question.id: example for example in examples}
    examples_by_gold: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        for gold in set(map(normalize_answer, example.gold.answers)):
            examples_by_gold[gold].append(example)
    matched: dict[str, _MatchedAnswer] = {}
    left_out = []
    for answer in answers:
        fitting = _examples_it_may_answer(answer, example_by_id, examples_by_gold)
        if len(fitting) != 1:
            left_out.append(_sentence_on_unmatched(answer, fitting))
            continue
        question_id = fitting[0].question.id
        if question_id in matched:
            raise answer.place.error(
                field=None,
                problem=f"answers question '{question_id}', as "
                f"{matched[question_id].answer.place} does; keep one of them",
            )
        matched[question_id] = _MatchedAnswer(answer, fitting[0])
    return list(matched.values()), left_out


def _examples_it_may_answer(
    answer: ForeignAnswer,
    example_by_id: Mapping[str, Example],
    examples_by_gold: Mapping[str, Sequence[Example]],
) -> list[Example]:
    """The examples that an answer may be to: the one with its id, or else all with its question and
    a right answer in common.

    Args:
        answer: An answer of another tool.
        example_by_id: Question id -> example.
        examples_by_gold: Normalised right answer -> the examples that have it.
    """
    same_id: Example | None = None
    if answer.id is not None:
        same_id = example_by_id.get(answer.id)
    if same_id is not None and _may_be_answer_to(answer, same_id):
        return [same_id]
    if not answer.question:
        return []
    fitting: dict[str, Example] = {}
    for gold in map(normalize_answer, answer.answers):
        for example in examples_by_gold.get(gold, ()):
            if _may_be_answer_to(answer, example):
                fitting[example.question.id] = example
    return list(fitting.values())


def _sentence_on_unmatched(answer: ForeignAnswer, fitting: Sequence[Example]) -> str:
    """ "answers.jsonl, line 3: 'q7' fits no question": a sentence on an answer that is left out.

    Args:
        answer: The answer; without an id it is named by the end of its question, or without that
            by its right answers.
        fitting: The questions that it fits: none, or several.
    """
    label = answer.id or (answer.question or "")[-60:] or " / ".join(answer.answers)[:60]
    what_it_fits = "no question"
    if fitting:
        what_it_fits = "several questions"
    return f"{answer.place}: '{label}' fits {what_it_fits}"


def _may_be_answer_to(answer: ForeignAnswer, example: Example) -> bool:
    """Whether an answer's question contains that of the example, and one of its right answers is a
    gold answer. What the file does not say speaks against nothing."""
    if answer.question:
        question_in_file = normalize_answer(answer.question)
        if normalize_answer(example.question.text) not in question_in_file:
            return False
    if not answer.answers:
        return True
    pairs = product(answer.answers, example.gold.answers)
    return any(exact(right, gold) for right, gold in pairs)


class _OwnQuestions(Iterable[_MatchedAnswer]):
    """Pairs of an answer and its question, where the imported file has the questions. They are made
    anew at each pass, so that they need no memory."""

    def __init__(self, answers: Iterable[ForeignAnswer]) -> None:
        """Keep the answers, which must be iterable several times."""
        self._answers = answers

    def __iter__(self) -> Iterator[_MatchedAnswer]:
        """Yield each answer with a question made from it. One without an id gets a hash of question
        and right answers for an id; where an earlier one has the same, "-again" is added. Raises
        DataError for an answer without a right answer."""
        made_ids: set[str] = set()
        for answer in self._answers:
            if not answer.answers:
                raise answer.place.error(
                    field=None, problem="has no right answer; name the data set with --dataset"
                )
            question_id = answer.id
            if question_id is None:
                question_id = id_from_text("q", json_sha256([answer.question, answer.answers]))
                while question_id in made_ids:
                    question_id += "-again"
                made_ids.add(question_id)
            question = Question(
                question_id, answer.question or "", document_ids=(), options=answer.options
            )
            example = Example(question, Gold(answer.answers, extra=answer.extra))
            yield _MatchedAnswer(answer, example)


class _CostCounts:
    """Counts of how many answered questions each cost (one of COSTS) is known."""

    def __init__(self) -> None:
        """Begin with no question counted."""
        self.n_answered = 0
        self._counts = dict.fromkeys(COSTS, 0)

    def add(self, answer: ForeignAnswer) -> None:
        """Count one answered question, and each cost that is known of it."""
        self.n_answered += 1
        for name in COSTS:
            if getattr(answer, name) is not None:
                self._counts[name] += 1

    def names_known_of_all(self) -> set[str]:
        """The names of the costs that are known of every answered question."""
        return {name for name, count in self._counts.items() if count == self.n_answered}

    def notes(self) -> list[str]:
        """A sentence for each cost that is known of some answered questions, but not of all."""
        partly = [name for name, count in self._counts.items() if 0 < count < self.n_answered]
        return [f"{name} is not known of all questions, so it is left out" for name in partly]


class _ScoredAnswers(NamedTuple):
    """The names of the scorers that were used, and a record for each answer with its scores."""

    scorer_names: Sequence[str]
    records: PackedRecords


def _score_answers_and_note(
    config: DatasetConfig,
    pairs: Iterable[_MatchedAnswer],
    dataset: Dataset | None,
    logged_names: Sequence[str],
    notes: list[str],
) -> _ScoredAnswers:
    """Score answers with the scorers that can score any of them: the names of these, and a record
    for each answer. A cost that some answered question lacks is left out of all records. Also adds
    sentences to `notes`: which scorers and costs are left out, and why.

    Args:
        config: The data set, with the scorers to use.
        pairs: The answers with their questions; passed over several times.
        dataset: Its rows; None where the file has the questions.
        logged_names: Names of the other tool's scores, which become scores too; a failed question
            has 0.
        notes: Gets the sentences.
    """
    costs = _CostCounts()
    for answer, _ in pairs:
        if answer.error is None:
            costs.add(answer)
    reason_by_useless_scorer = _scorers_without_score(
        config.scorers, pairs, only_answered=costs.n_answered > 0
    )
    for name, why in reason_by_useless_scorer.items():
        notes.append(f"{name} scores none of these answers: {why}")
    useful_names = tuple(name for name in config.scorers if name not in reason_by_useless_scorer)
    config = config.model_copy(update={"scorers": useful_names})
    notes += costs.notes()
    known_costs = costs.names_known_of_all()
    records = PackedRecords()
    for answer, example in pairs:
        unscored = _unscored_record(answer, example, known_costs, dataset)
        record = score_record(unscored, config, example.gold)
        logged_scores = {LOGGED_SCORE_PREFIX + name: value for name, value in answer.scores.items()}
        if answer.error is not None:
            logged_scores = dict.fromkeys(logged_names, 0.0)
        records.append(replace(record, scores={**record.scores, **logged_scores}))
    return _ScoredAnswers(config.scorers, records)


def _scorers_without_score(
    names: Sequence[str], pairs: Iterable[_MatchedAnswer], *, only_answered: bool
) -> dict[str, str]:
    """The scorers that can score none of the answers: name -> why it cannot score the first one,
    {"rouge": "no gold answers"}.

    Args:
        names: The scorers to try.
        pairs: Answers with their questions; passed over once for each scorer.
        only_answered: Whether failed questions are passed over.
    """
    reason_by_scorer: dict[str, str] = {}
    for name in names:
        first_reason: str | None = None
        for answer, example in pairs:
            if only_answered and answer.error is not None:
                continue
            scored = scorers.score_answer([name], answer.prediction, (), example.gold)
            reason = scored.flags.get(name)
            if not reason:
                break  # it scores this one
            first_reason = first_reason or reason
        else:  # no answer was scored, so the loop was not left
            assert first_reason is not None  # check_run takes no file without answers
            reason_by_scorer[name] = first_reason
    return reason_by_scorer


def _unscored_record(
    answer: ForeignAnswer, example: Example, known_costs: set[str], dataset: Dataset | None
) -> StoredRecord:
    """The record of an answer, without scores. Its costs are those of the other tool, and FLOPs are
    not counted ("uncounted": 1 request).

    Args:
        answer: The answer.
        example: Its question.
        known_costs: The costs that are known of every answered question; others are left out.
        dataset: Its rows, whose texts are added; None where the file has the questions.
    """
    question = example.question
    costs = answer.model_dump(include=known_costs, exclude_none=True)
    options = None
    if question.options is not None:
        options = list(question.options)
    error = None
    if answer.error is not None:
        error = {"type": "Elsewhere", "message": answer.error}
    record = StoredRecord(
        question_id=question.id,
        question=question.text or None,
        options=options,
        document_ids=list(question.document_ids),
        document_characters=[],
        gold=json_values(example.gold, not_finite=[]),
        prediction=answer.prediction,
        scores={},
        usage={"answer": cast(PhaseUsage, {"uncounted": 1, **costs})},
        error=error,
    )
    if dataset is None:
        return record
    record_with_texts, _ = with_dataset_texts(record, example, dataset.documents)
    return record_with_texts
