"""One pass over the whole records of a run: what their texts are, and what does not fit in them.

    examined = examine(run)
    examined.count_different_golds(examine(other))     questions with other gold answers there
    examined.problems           {"costs below zero": 3}: what does not fit -> number of records

Texts are held as hashes of 8 bytes, so that a million records take 48 MB. What a record says is
compared with itself, with what its method declares, and with the models' sizes: a question that was
answered has a cost, its FLOPs are those of its tokens, and its tokens hold what was shown.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from hashlib import blake2b
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.config.schema import canonical_json
from harness.cost.flops import DEFAULT_CONVENTION, ModelShape
from harness.cost.usage import PhaseUsage
from harness.datasets.question_kinds import question_kinds
from harness.method.abilities import ChecksStops
from harness.storage.manifest_file import RunManifest
from harness.storage.record_notes import is_joined, judgements_of
from harness.storage.records import StoredPiece, StoredRecord
from harness.storage.run_folder import StoredRun
from harness.storage.stored_config import StoredConfig
from reports.declared import MethodDeclaration, configured_shipped_method, method_declaration
from reports.rescored import Rescoring, RescoringResult

_HashColumn = NDArray[np.uint64]
_UNKNOWN = 0  # the hash of a text that the record does not hold
_HASH_COLUMNS = ("ids", "questions", "golds", "kinds", "documents", "lengths", "answers_with_costs")
_QUESTION_PHASES = ("search", "answer")  # whose costs are those of a question
_STUDY_PHASE = "study"  # the phase and the steps behind a question's own stop
_USUAL_CHARACTERS_PER_TOKEN = 5.0  # where no prompt says how many
_MAX_CHARACTERS_FACTOR = (
    4  # more characters per token than in the first prompt, at most, in a model
)
_MAX_LENGTH_FACTOR = 2.5  # the same, in texts of one language
_CUT_TEXT = "truncated"  # the stop reason of an answer from a text that did not fit
_SHARE_WITHOUT_GAPS = 0.95  # of a text that was joined from several documents
_FREE_ANSWER_CHARACTERS = 20  # of an answer, beside those of its tokens
_PROMPT_FRAME_CHARACTERS = 1500  # of a prompt, beside what it shows: question, markers, examples
_MAX_RANKING_REQUESTS = 2  # a search that ranks by attention: one with the question, one without
_FLOPS_TOLERANCE = 1e-6  # part of the FLOPs by which sums may differ
_MAX_SECONDS_FACTOR = 1.1  # how much longer requests may seem than their question
_CLOCK_SECONDS = 0.002  # by which two clocks of a process may differ
_MIN_QUEUED_SECONDS = 0.05  # fewer are rounding, and no waiting
_SECONDS_DIGITS = 4  # decimals; two requests that take as long to more decimals are one


@dataclass(frozen=True)
class Examined:
    """What one pass over a run's records found.

    The arrays of hashes have one entry a record, in the order of `ids`; 0 stands for a text that
    the record does not hold.

    Args:
        ids: Hashes of the question ids, sorted.
        questions: Hashes of question and options.
        golds: Hashes of gold answers and supporting passages.
        kinds: Hashes of the kind of the question.
        documents: Hashes of the ids of the question's documents.
        lengths: Hashes of these documents' numbers of characters.
        answers_with_costs: Hashes of the answer with all that it cost, seconds included.
        seconds: Two numbers: of the record that took longest, and of all records together.
        problems: What does not fit -> number of records: {"costs below zero": 3}.
    """

    ids: _HashColumn
    questions: _HashColumn
    golds: _HashColumn
    kinds: _HashColumn
    documents: _HashColumn
    lengths: _HashColumn
    answers_with_costs: _HashColumn
    seconds: NDArray[np.float64]
    problems: Mapping[str, int]

    @property
    def has_texts(self) -> bool:
        """Whether every record holds its question and gold answers."""
        return bool(np.all(self.golds != _UNKNOWN) and np.all(self.questions != _UNKNOWN))

    @property
    def texts_key(self) -> int:
        """A number that is equal for runs with the same question ids, question texts and gold
        answers."""
        return hash((self.ids.tobytes(), self.questions.tobytes(), self.golds.tobytes()))

    def count_different_golds(self, other: "Examined") -> int:
        """How many questions that both runs have differ in their gold answers; those whose gold
        answers either run does not know are not counted."""
        return self._count_different(other, self.golds, other.golds)

    def count_different_questions(self, other: "Examined") -> int:
        """How many questions that both runs have differ in their text or options; those whose text
        either run does not know are not counted."""
        return self._count_different(other, self.questions, other.questions)

    def count_different_kinds(self, other: "Examined") -> int:
        """How many questions that both runs have differ in their kind; those whose kind either run
        does not know are not counted."""
        return self._count_different(other, self.kinds, other.kinds)

    def count_different_documents(self, other: "Examined") -> int:
        """How many questions that both runs have differ in the ids of their documents; those whose
        documents either run does not know are not counted."""
        return self._count_different(other, self.documents, other.documents)

    def count_different_lengths(self, other: "Examined") -> int:
        """How many questions that both runs have differ in the lengths of their documents; those
        whose lengths either run does not know are not counted."""
        return self._count_different(other, self.lengths, other.lengths)

    def count_copied_answers(self, other: "Examined") -> int:
        """How many answers of this run the other one has at the same cost, to the last digit of the
        seconds."""
        own_answers = self.answers_with_costs
        known_answers = own_answers[own_answers != _UNKNOWN]
        return len(np.intersect1d(known_answers, other.answers_with_costs))

    def _count_different(
        self, other: "Examined", own_hashes: _HashColumn, other_hashes: _HashColumn
    ) -> int:
        """How many questions that both runs have differ in a hash that both know.

        Args:
            other: The other run.
            own_hashes: A column of hashes of this run, in the order of `ids`.
            other_hashes: The same column of the other run.
        """
        if not np.array_equal(self.ids, other.ids):
            _, own_rows, other_rows = np.intersect1d(self.ids, other.ids, return_indices=True)
            own_hashes = own_hashes[own_rows]
            other_hashes = other_hashes[other_rows]
        both_known = (own_hashes != _UNKNOWN) & (other_hashes != _UNKNOWN)
        return int(np.sum((own_hashes != other_hashes) & both_known))


class Examination:
    """Examines the records of a run, with their texts, one after the other.

    Args:
        run: The run; its records are not read.
        rescorings: What computes scores again in the same pass.
    """

    def __init__(self, run: StoredRun, rescorings: Sequence[Rescoring] = ()) -> None:
        """Start with empty columns (a hash for each record) and no problem counted.

        Args:
            run: The run, whose manifest and settings say which problems its records can have.
            rescorings: Each gets every record that is added.
        """
        self._columns = {name: array("Q") for name in _HASH_COLUMNS}  # a hash for each record
        self._problems = Counter[str]()  # phrase -> records
        self._find_problems = _problem_finder_for(run)
        self._rescorings = rescorings
        self._longest_seconds = 0.0  # of the longest question
        self._total_seconds = 0.0  # of all questions

    def add(self, record: StoredRecord) -> None:
        """Examine the next record: add to the columns, the problems and the rescorings."""
        self._columns["ids"].append(_hash8(record.question_id))
        self._columns["questions"].append(_question_hash(record))
        self._columns["golds"].append(_gold_hash(record))
        self._columns["kinds"].append(_kind_hash(record))
        self._columns["documents"].append(_hash8(record.document_ids))
        self._columns["lengths"].append(_document_lengths_hash(record))
        self._columns["answers_with_costs"].append(_answer_and_cost_hash(record))
        problems_once = dict.fromkeys(self._find_problems(record), 1)
        self._problems.update(problems_once)  # counts each problem once a record
        seconds = record.seconds or 0.0
        self._longest_seconds = max(self._longest_seconds, seconds)
        self._total_seconds += seconds
        for rescoring in self._rescorings:
            rescoring.add(record)

    def finished(self) -> Examined:
        """What was found in all records that were added, in the order of their ids' hashes."""
        hashed_ids = np.frombuffer(self._columns["ids"], dtype=np.uint64)
        order = np.argsort(hashed_ids)
        columns = {}
        for name, column in self._columns.items():
            columns[name] = np.frombuffer(column, dtype=np.uint64)[order]
        seconds = np.array([self._longest_seconds, self._total_seconds])
        return Examined(**columns, seconds=seconds, problems=self._problems)

    def rescored(self) -> dict[str, RescoringResult]:
        """Name of each score that was computed again -> what computing it has found."""
        return {rescoring.name: rescoring.result for rescoring in self._rescorings}


def examine(run: StoredRun) -> Examined:
    """What one pass over the records of a run finds; their texts are read from disk for it."""
    examination = Examination(run)
    for record in run.records_with_texts:
        examination.add(record)
    return examination.finished()


def _hash8(value: object) -> int:
    """8 bytes of the blake2b of a value's JSON, as a number; never 0, which is _UNKNOWN."""
    text = canonical_json(value).encode("utf-8", "surrogatepass")
    digest = blake2b(text, digest_size=8).digest()
    number = int.from_bytes(digest, "little")
    return number or 1


def _question_hash(record: StoredRecord) -> int:
    """The hash of a question with its options; _UNKNOWN where the record does not hold it."""
    if record.question is None:
        return _UNKNOWN
    return _hash8([record.question, record.options])


def _gold_hash(record: StoredRecord) -> int:
    """The hash of the gold answers with their supporting passages; _UNKNOWN where the record lacks
    them."""
    gold = record.gold
    if gold is None:
        return _UNKNOWN
    return _hash8([gold["answers"], gold.get("supporting")])


def _kind_hash(record: StoredRecord) -> int:
    """The hash of the kinds that a question is of; _UNKNOWN where the record does not hold them."""
    kinds = question_kinds(record.gold_extra)
    if not kinds:
        return _UNKNOWN
    return _hash8(kinds)


def _document_lengths_hash(record: StoredRecord) -> int:
    """The hash of the lengths of a question's documents; _UNKNOWN where the record lacks them."""
    lengths = record.document_characters
    if not lengths:
        return _UNKNOWN
    return _hash8(lengths)


def _answer_and_cost_hash(record: StoredRecord) -> int:
    """The hash of a record's id, answer and costs.

    _UNKNOWN where a reply came from the cache, or no seconds were measured to many digits: equal
    costs then do not show that an answer was copied.
    """
    has_exact_seconds = False
    for phase in record.usage.values():
        if phase.get("recalled"):
            return _UNKNOWN
        seconds = phase.get("seconds") or 0
        if round(seconds, _SECONDS_DIGITS) != seconds:
            has_exact_seconds = True
    if not has_exact_seconds:
        return _UNKNOWN
    return _hash8([record.question_id, record.prediction, record.usage])


@dataclass(frozen=True)
class FlopsBounds:
    """Sizes of a run's models from which bounds of its FLOPs are computed.

    Args:
        min_weights: Convention -> the fewest weights of any model that a token meets.
        min_weights_otherwise: The same for a convention that is not in `min_weights`.
        models: The size of each model.
        max_pooling_flops: FLOPs of pooling one text, in the widest model if it is an encoder.
    """

    min_weights: Mapping[str, int]
    min_weights_otherwise: int
    models: Sequence["_ModelSize"]
    max_pooling_flops: int


class _ModelSize(NamedTuple):
    """The size of one model.

    Attributes:
        weights: All its weights.
        attention_flops: FLOPs of one position that attends to one other.
    """

    weights: int
    attention_flops: int


def _flops_bounds(shapes: Sequence[ModelShape]) -> FlopsBounds | None:
    """The bounds of FLOPs that the sizes of these models give; None without any model.

    By the default convention a token meets all parameters of a model; by "executed" it may meet
    those of the layers alone, without the head; by any other one layers and head.
    """
    if not shapes:
        return None
    widest = max(shape.width for shape in shapes)
    return FlopsBounds(
        min_weights={
            DEFAULT_CONVENTION: min(shape.parameters for shape in shapes),
            "executed": min(shape.layer_weights for shape in shapes),
        },
        min_weights_otherwise=min(shape.layer_weights + shape.head_weights for shape in shapes),
        models=[_ModelSize(shape.parameters, shape.flops_per_pair) for shape in shapes],
        max_pooling_flops=2 * widest * (widest + 1),
    )


def _model_shapes(manifest: RunManifest) -> list[ModelShape]:
    """The sizes of all models of a run; [] where those of any model are not recorded in full."""
    names_of_sizes = {field.name for field in fields(ModelShape)}
    shapes = []
    for role, sizes in manifest.shapes.items():
        if sizes is None or sizes.keys() != names_of_sizes:
            return []
        shape = manifest.shape(role)
        if shape is None:
            return []
        shapes.append(shape)
    if not manifest.models or len(shapes) != len(manifest.models):
        return []
    return shapes


def _problem_finder_for(run: StoredRun) -> Callable[[StoredRecord], Iterator[str]]:
    """The function that yields a phrase for each thing that does not fit in a record of the run; of
    one that another tool made, it looks at less."""
    if run.manifest.imported is not None:
        return _imported_problems
    return partial(_record_problems, expected=_expectations(run))


def _expectations(run: StoredRun) -> "Expectations":
    """What the manifest, the settings and the method of a run lead one to expect of its records and
    indexes."""
    roles_without_shape = []
    if not run.manifest.lacks_hashed_values:  # an older version recorded fewer sizes
        roles_without_shape = [role for role, shape in run.manifest.shapes.items() if not shape]
    return Expectations(
        declaration=method_declaration(run),
        flops_bounds=_flops_bounds(_model_shapes(run.manifest)),
        roles_without_shape=roles_without_shape,
        uses_reply_cache=_used_reply_cache(run),
        has_models=bool(run.manifest.models),
        is_application=_is_application(run, method_declaration(run)),
        characters_per_token=_characters_per_token(run.manifest),
        prompt_characters=sum(map(len, run.manifest.prompts.values())),
        instruction_characters=len(run.config.dataset.instruction or ""),
        max_answer_tokens=_max_answer_tokens(run.config),
        shows_evidence_only=run.config.method.view == "evidence",
        max_in_flight=_max_questions_in_flight(run),
        has_loaded_reader=_reader_backend(run) == "hf",
        window=_reader_window(run),
        roles=_model_roles(run),
        may_stop=_stop_rule_of_method(run),
        least_share_shown=_share_rule_of_method(run),
    )


def index_problems(run: StoredRun) -> Mapping[str, int]:
    """What does not fit in the costs of a run's indexes -> number of indexes; failed ones are not
    looked at.

    -> {"FLOPs that are not those of its tokens": 2}
    """
    expected = _expectations(run)
    problems = Counter[str]()
    for line in run.index_lines:
        if line.failed:
            continue
        problems_once = dict.fromkeys(_usage_problems(line.usage.values(), expected), 1)
        problems.update(problems_once)  # counts each problem once an index
    return problems


_StopCheck = Callable[[str, Sequence[Mapping[str, object]]], bool]
"""(stop reason, recorded steps) -> whether a search with these steps may stop for that reason."""


def _stop_rule_of_method(run: StoredRun) -> _StopCheck | None:
    """What the run's method says of when a search may stop, `method.may_stop`.

    None for a method that does not say, and for a run that does not record the values of settings
    left unset, on which the answer may depend.
    """
    if run.manifest.lacks_hashed_values:
        return None
    method: object = configured_shipped_method(run)
    if isinstance(method, ChecksStops):
        return method.may_stop
    return None


def _share_rule_of_method(run: StoredRun) -> Callable[[str], float] | None:
    """What the run's method says of how much is shown at a stop, `method.least_share_shown`.

    None for a method that is not shipped, for a view of the evidence alone, and for passages of a
    retriever or a corpus.
    """
    method = configured_shipped_method(run)
    if method is None or run.config.method.view == "evidence":
        return None
    if run.config.retriever or run.manifest.corpus is not None:
        return None
    return method.least_share_shown


@dataclass(frozen=True)
class Expectations:
    """What a run's records and indexes are compared with.

    Args:
        declaration: What the method's class says; None if unknown.
        flops_bounds: The bounds of FLOPs by the models' sizes; None where one of these is unknown.
        roles_without_shape: Roles whose models' sizes are not recorded.
        uses_reply_cache: Whether replies may come from the cache of replies.
        has_models: Whether the run names the models that it used.
        is_application: Whether its reader is an application, which need not say what it read.
        characters_per_token: As in the first prompt that the reader was sent.
        prompt_characters: Of the templates of all prompts together.
        instruction_characters: Of the data set's instruction.
        max_answer_tokens: Most tokens of an answer; None where no limit is known.
        shows_evidence_only: Whether the supporting passages alone are shown.
        max_in_flight: Most questions in flight; 0 if unknown or sent as a batch.
        has_loaded_reader: Whether the reader was loaded here, and is no server.
        window: Most tokens of a prompt and its reply, of a loaded reader; None where that is not
            recorded.
        roles: The roles of the run's models; None where a search has others.
        may_stop: (stop reason, steps) -> whether a search of these steps may stop for that reason;
            None where the method does not say.
        least_share_shown: Stop reason -> the least share of the documents that is shown; None where
            the method does not say.
    """

    declaration: MethodDeclaration | None
    flops_bounds: FlopsBounds | None
    roles_without_shape: list[str]
    uses_reply_cache: bool
    has_models: bool
    is_application: bool
    characters_per_token: float
    prompt_characters: int
    instruction_characters: int
    max_answer_tokens: int | None
    shows_evidence_only: bool
    max_in_flight: int
    has_loaded_reader: bool
    window: int | None
    roles: frozenset[str] | None
    may_stop: _StopCheck | None
    least_share_shown: Callable[[str], float] | None


def _max_questions_in_flight(run: StoredRun) -> int:
    """Most questions in flight in any start of the run; 0 where that is not recorded, and for
    requests that were sent as a batch."""
    if run.config.model.batch or not run.manifest.starts:
        return 0
    return run.manifest.max_in_flight


def _model_roles(run: StoredRun) -> frozenset[str] | None:
    """The roles of the models that the run names; None where it searches a corpus, whose encoder is
    not among them."""
    if run.manifest.corpus is not None or run.config.retriever:
        return None
    return frozenset(run.manifest.models)


def _is_application(run: StoredRun, declaration: MethodDeclaration | None) -> bool:
    """Whether the run's reader is an application by its settings, by the identity that the hash in
    the run's name covers, and by what a shipped method asks."""
    identity = run.manifest.identity("reader")
    method_may_ask_one = declaration is None or declaration.asks_application
    is_identified = "application" in identity
    return method_may_ask_one and is_identified and _reader_backend(run) == "application"


def _reader_window(run: StoredRun) -> int | None:
    """The window of a loaded reader by its identity; None for another back end."""
    window = run.manifest.identity("reader").get("window")
    if _reader_backend(run) != "hf" or not isinstance(window, int):
        return None
    return window


def _reader_backend(run: StoredRun) -> str:
    """The back end of the reader: "hf", "endpoint", "application"; "hf" where none is set."""
    return run.config.model_of("reader").backend or "hf"


def _used_reply_cache(run: StoredRun) -> bool:
    """Whether the settings or the command of any start of the run name a cache of replies."""
    if run.config.cache is not None:
        return True
    return any("--cache" in " ".join(start.command) for start in run.manifest.starts)


def _characters_per_token(manifest: RunManifest) -> float:
    """Characters of a token in the first prompt that the reader was sent; 5 where none is
    recorded."""
    first_prompt = manifest.first_prompt("reader")
    if not first_prompt.ids or not first_prompt.text:
        return _USUAL_CHARACTERS_PER_TOKEN
    return max(1.0, len(first_prompt.text) / len(first_prompt.ids))


def _max_answer_tokens(config: StoredConfig) -> int | None:
    """The most tokens that an answer of a loaded reader can have.

    None for another back end, for a reader that thinks, and where no limit is set. A record does
    not say which of two limits held, so it is the larger one.
    """
    if config.model.thinking is not None or config.model.backend != "hf":
        return None
    limits = (config.dataset.max_answer_tokens, config.model.max_tokens)
    return max((limit for limit in limits if limit), default=None)


def _imported_problems(record: StoredRecord) -> Iterator[str]:
    """Yield what does not fit in a record that another tool made; little is known of its costs."""
    if _is_negative(record.usage):
        yield "costs below zero"


def _record_problems(record: StoredRecord, expected: Expectations) -> Iterator[str]:
    """Yield a phrase for each thing that does not fit in a record: "costs below zero".

    What was shown and what it cost is only compared for shipped methods, and an answer only where
    the question did not fail.
    """
    if _is_negative(record.usage):
        yield "costs below zero"
    scores = record.scores.values()
    if min(scores, default=0) < 0 or max(scores, default=0) > 1:
        yield "a score below 0 or above 1"
    if _has_other_verdict(record):
        yield "a judge's score that is not its verdict"
    yield from _place_problems(record)
    lacks_tokens = any(_lacks_tokens_read_or_written(phase) for phase in record.usage.values())
    if lacks_tokens and not expected.is_application:
        yield "tokens that are unknown, of models that are no application"
    if expected.declaration is None:
        return  # a method of the user's own may ask models that are not counted here
    if record.error is None and not expected.shows_evidence_only:
        yield from _passage_count_problems(record, expected.declaration.max_passages)
        yield from _length_problems(record, expected)
    yield from _step_problems(record)
    yield from _phase_problems(record)
    if record.error is None:
        yield from _answer_problems(record, expected, expected.declaration)


def _answer_problems(
    record: StoredRecord, expected: Expectations, declaration: MethodDeclaration
) -> Iterator[str]:
    """Yield what does not fit in the record of a question that a shipped method answered.

    Args:
        record: The record, without an error.
        expected: What it is compared with.
        declaration: What the method's class says, `expected.declaration`.
    """
    must_be_disjoint = declaration.has_disjoint_passages and not expected.shows_evidence_only
    if must_be_disjoint and _any_spans_overlap(record.shown):
        yield "passages shown that overlap, where the method cuts them once"
    if declaration.has_ordered_passages and not _are_spans_in_order(record.shown):
        yield "passages shown in another order than that of the text"
    yield from _share_problems(record, expected)
    if expected.may_stop is not None:
        if record.steps and not expected.may_stop(record.stop_reason, record.steps):
            yield "a stop that its steps do not give"
        if _differs_from_last_step(record):
            yield "an answer that is not the one recorded at its stop"
    phases = [record.usage.get(phase) or {} for phase in _QUESTION_PHASES]
    yield from _usage_problems(phases, expected)
    if declaration.one_request:
        yield from _time_problems(record, phases, expected)
    if expected.is_application:
        yield from _application_problems(phases)
    elif expected.has_models:
        yield from _request_problems(record, phases, expected)
        yield from _token_problems(record, phases, expected)


_SCORE_OF_VERDICT = {"yes": 1.0, "no": 0.0}


def _has_other_verdict(record: StoredRecord) -> bool:
    """Whether a judge noted yes or no for the answer, and its score in the record is another than 1
    for yes, 0 for no."""
    for name, judgement in judgements_of(record.notes).items():
        score = record.scores.get(name)
        if score is None:
            continue
        score_of_verdict = _SCORE_OF_VERDICT.get(judgement.get("verdict"))
        if score_of_verdict is not None and score_of_verdict != score:
            return True
    return False


def _lacks_tokens_read_or_written(phase: PhaseUsage) -> bool:
    """Whether tokens of the phase are unknown, or known only as a sum of those read and written."""
    return bool(phase.get("tokens_unknown") or phase.get("tokens_total"))


def _is_negative(value: object) -> bool:
    """Whether a value is a number below zero, or a mapping that holds one at any depth.

    {"search": {"seconds": -1.0}} -> True
    """
    if isinstance(value, dict):
        return any(_is_negative(item) for item in value.values())
    return isinstance(value, int | float) and value < 0


_CountKey = Literal[
    "requests", "encoder_requests", "tokens_in", "tokens_out", "tokens_cached", "tokens_reused",
    "seconds", "queued", "retries", "texts",
]  # fmt: skip
"""A cost of a phase that is a number."""


def _sum_costs(phases: Iterable[PhaseUsage], *keys: _CountKey) -> float:
    """The sum of the costs named `keys` over phases; one that a phase lacks is 0."""
    total = 0.0
    for phase in phases:
        for key in keys:
            total += phase.get(key) or 0
    return total


def _count_model_requests(phases: Iterable[PhaseUsage]) -> float:
    """The requests of phases to models that write, without those to encoders and rerankers."""
    return _sum_costs(phases, "requests") - _sum_costs(phases, "encoder_requests")


def _usage_problems(phases: Iterable[PhaseUsage], expected: Expectations) -> Iterator[str]:
    """Yield what does not fit between tokens, FLOPs and models of a phase, a phrase each.

    Args:
        phases: The costs of each phase of a record.
        expected: What the run says of its models and its cache of replies.
    """
    for phase in phases:
        if phase.get("recalled") and not expected.uses_reply_cache:
            yield "replies from a cache that no start of the run had"
        if phase.get("uncounted") and expected.flops_bounds:
            yield "calls without FLOPs, of models whose sizes are recorded"
        for role, flops_of_role in (phase.get("roles") or {}).items():
            if not flops_of_role:
                continue
            if expected.roles and role not in expected.roles:
                yield "FLOPs of a model that the run does not name"
            if role in expected.roles_without_shape:
                yield "FLOPs of a model whose sizes are not recorded"
        flops_by_convention = phase.get("flops") or {}
        were_counted = flops_by_convention.get(DEFAULT_CONVENTION) and not phase.get("uncounted")
        if not were_counted or not expected.flops_bounds:
            continue
        for convention, flops in flops_by_convention.items():
            if not _are_flops_of_tokens(convention, flops, phase, expected.flops_bounds):
                yield "FLOPs that are not those of its tokens"


def _time_problems(
    record: StoredRecord, phases: Sequence[PhaseUsage], expected: Expectations
) -> Iterator[str]:
    """Yield what does not fit between the seconds of a question, its one request, and its waiting.

    Args:
        record: The record.
        phases: Its costs of search and answer.
        expected: What it is compared with.
    """
    seconds_were_measured = expected.max_in_flight > 0 and not expected.uses_reply_cache
    if record.seconds and seconds_were_measured:
        max_request_seconds = _MAX_SECONDS_FACTOR * record.seconds + _CLOCK_SECONDS
        if _sum_costs(phases, "seconds") > max_request_seconds:
            yield "requests that took longer than their question"
    one_at_a_time = expected.has_loaded_reader and expected.max_in_flight == 1
    if one_at_a_time and _sum_costs(phases, "queued") > _MIN_QUEUED_SECONDS:
        yield "waiting for other questions, where one was asked at a time"
    if expected.has_loaded_reader and _sum_costs(phases, "retries"):
        yield "repeated requests to a server, where the model was loaded"


def _are_flops_of_tokens(
    convention: str, flops: float, phase: PhaseUsage, bounds: FlopsBounds
) -> bool:
    """Whether FLOPs are possible for the tokens of a phase.

    The least possible are those of the smallest model without attention, the most those of the
    largest model with every token attending to all, and of pooling each text. Both have a tenth to
    spare.

    Args:
        convention: How the FLOPs are counted.
        flops: The FLOPs.
        phase: The costs of the phase, with its tokens.
        bounds: The bounds by the sizes of the run's models.
    """
    tokens = _sum_costs([phase], "tokens_in", "tokens_out")
    context_tokens = tokens + _sum_costs([phase], "tokens_cached")
    if phase.get("encoder_requests"):  # encoders and rerankers run without a head for words
        convention = "executed"
    min_weights = bounds.min_weights.get(convention, bounds.min_weights_otherwise)
    min_flops = 2 * min_weights * tokens
    max_flops = 0.0
    for model in bounds.models:
        attention_flops = model.attention_flops * tokens * context_tokens
        max_flops = max(max_flops, 2 * model.weights * tokens + attention_flops)
    max_pooled_texts = 1 + _sum_costs([phase], "texts", "requests")
    max_flops += bounds.max_pooling_flops * max_pooled_texts
    return 0.9 * min_flops <= flops <= 1.1 * max_flops


def _application_problems(phases: Sequence[PhaseUsage]) -> Iterator[str]:
    """Yield a phrase where an application's answer took no request.

    Its tokens are what its reply says, which may be none where it found nothing to ask a model
    about, so they are not checked.
    """
    if not _sum_costs(phases, "requests"):
        yield "an answer without a request"


def _request_problems(
    record: StoredRecord, phases: Sequence[PhaseUsage], expected: Expectations
) -> Iterator[str]:
    """Yield what does not fit between an answer, its requests and what the method declares.

    Args:
        record: The record.
        phases: Its costs of search and answer, in this order.
        expected: What it is compared with.
    """
    requests = _count_model_requests(phases)
    if not requests and not _model_must_have_been_asked(record, expected.declaration):
        return
    if not requests or not _sum_costs(phases, "tokens_in"):
        yield "an answer without a request, or without a token that was read"
        return
    # A script's replies take no time; a model with recorded sizes is no script.
    if expected.flops_bounds and not _sum_costs(phases, "seconds"):
        yield "an answer that took no time"
    has_answer = bool((record.prediction or "").strip())
    has_probes = any("probes" in phase for phase in phases)  # which write nothing
    if has_answer and not _sum_costs(phases, "tokens_out") and not has_probes:
        yield "an answer without a token that was written"
    if expected.declaration is None or not expected.declaration.one_request:
        return
    search, answer = phases
    too_many_in_search = _count_model_requests([search]) > _MAX_RANKING_REQUESTS
    if too_many_in_search and expected.declaration.ranks_by_attention:
        too_many_in_search = not _are_full_passes(search, expected.window)
    if _count_model_requests([answer]) != 1 or too_many_in_search:
        yield "several requests, where the method makes one"
    yield from _reply_problems(record, phases, expected)


def _are_full_passes(search: PhaseUsage, window: int | None) -> bool:
    """Whether the requests of a search by attention are passes over a text that one window does not
    hold: each reads half a window or more, on average. False where no window is recorded."""
    if window is None:
        return False
    tokens_in_context = _sum_costs([search], "tokens_in", "tokens_cached")
    return tokens_in_context >= 0.5 * window * _count_model_requests([search])


def _reply_problems(
    record: StoredRecord, phases: Sequence[PhaseUsage], expected: Expectations
) -> Iterator[str]:
    """Yield a phrase where the length of an answer and the number of tokens written cannot both be
    true, for a method whose answer is the text of one reply.

        "fewer tokens written than the answer has"

    Args:
        record: The record.
        phases: Its costs of search and answer.
        expected: What it is compared with.
    """
    tokens_out = _sum_costs(phases, "tokens_out")
    answer = record.prediction or ""
    yield from _problems_of_longer_answer(answer, tokens_out, expected)
    if expected.max_answer_tokens is None:
        return
    if tokens_out > expected.max_answer_tokens:
        yield "more tokens written than an answer may have"
    has_less_than_half_a_character_per_token = 0 < 2 * len(answer) < tokens_out
    if _count_cut_replies(phases) and has_less_than_half_a_character_per_token:
        yield "an answer that is far shorter than the reply, which was cut at its limit"


def _problems_of_longer_answer(
    answer: str, tokens_out: float, expected: Expectations
) -> Iterator[str]:
    """Yield a phrase where an answer is longer than the tokens written can be.

    Args:
        answer: The answer.
        tokens_out: How many tokens were written for it; 0 is reported elsewhere.
        expected: What the run's settings let expect.
    """
    if not tokens_out:
        return
    max_per_token = _MAX_CHARACTERS_FACTOR * expected.characters_per_token
    max_characters = max_per_token * tokens_out + _FREE_ANSWER_CHARACTERS
    if len(answer) > max_characters:
        yield "fewer tokens written than the answer has"
    # The tokens of a loaded reader are counted here, not by a server: a word has one at least.
    elif expected.has_loaded_reader and len(answer.split()) > tokens_out:
        yield "fewer tokens written than the answer has words"


def _count_cut_replies(phases: Sequence[PhaseUsage]) -> int:
    """How many replies of these phases were cut at their limit; 0 for phases that record none."""
    count = 0
    for phase in phases:
        replies = phase.get("replies")
        if replies:
            count += replies.get("unfinished", 0)
    return count


def _model_must_have_been_asked(
    record: StoredRecord, declaration: MethodDeclaration | None
) -> bool:
    """Whether a model must have been asked for the answer of a record.

    Not where a method of several requests found nothing to ask about: then it shows nothing, and no
    step of it read a token. What a method does that is not shipped is not known: True.
    """
    if declaration is None or declaration.one_request or record.shown:
        return True
    return any(step.get("tokens") for step in record.steps)


def _token_problems(
    record: StoredRecord, phases: Sequence[PhaseUsage], expected: Expectations
) -> Iterator[str]:
    """Yield what does not fit between the tokens read and the passages shown.

    A model must have read the passages shown, and of a method of one request little else: prompts
    and instruction. The factors and the room beside them allow for other tokenizers and chat
    templates.

    Args:
        record: The record.
        phases: Its costs of search and answer.
        expected: What it is compared with.
    """
    shown_characters = _shown_characters(record.shown)
    tokens_read = _sum_costs(phases, "tokens_in")
    all_tokens_in_context = tokens_read + _sum_costs(phases, "tokens_cached", "tokens_reused")
    max_per_token = _MAX_CHARACTERS_FACTOR * expected.characters_per_token
    if shown_characters > max_per_token * all_tokens_in_context:
        yield "fewer tokens than the passages shown have"
    if expected.declaration is None or not expected.declaration.one_request:
        return
    if shown_characters and not expected.declaration.reads_documents:
        yield "passages shown, where the method reads no document"
    # Its answer is one context, which holds the prompt and the reply.
    tokens_of_answer = _sum_costs([phases[-1]], "tokens_in", "tokens_cached", "tokens_out")
    if expected.window is not None and tokens_of_answer > expected.window:
        yield "more tokens than the window of its reader"
    if _sum_costs(phases, "encoder_requests"):
        return  # some of the tokens were read by an encoder, not in the prompt
    instructions = expected.prompt_characters + 2 * expected.instruction_characters
    max_characters = 2.5 * (shown_characters + instructions) + _PROMPT_FRAME_CHARACTERS
    search_requests = _count_model_requests(phases[:1])
    if expected.declaration.ranks_by_attention and search_requests:
        # Passes over the whole text: each begins with the better half of the one before.
        passes_characters = 2.5 * 2 * sum(record.document_characters or ())
        max_characters += passes_characters + search_requests * max_characters
    if tokens_read * expected.characters_per_token > max_characters:
        yield "more tokens than the prompt and the passages shown have"


def _differs_from_last_step(record: StoredRecord) -> bool:
    """Whether the last step of a question's own search holds another answer than the record; False
    where it holds none. Steps of a study, which went on after the stop, do not count."""
    answer_of_last_step = None
    for step in record.steps:
        if step.get("action") != _STUDY_PHASE:
            answer_of_last_step = step.get("answer")
    if answer_of_last_step is None:
        return False
    return answer_of_last_step.strip() != (record.prediction or "").strip()


def _phase_problems(record: StoredRecord) -> Iterator[str]:
    """Yield a phrase for costs in a phase that is none of a question, and for costs of the phase
    "study" without a step that they can be of.

    A study (`--record-stops`) goes on after the search has stopped: its steps have the action
    "study". It also lets the steps before that answer, which is booked under "study" too.
    """
    phases_with_requests = {name for name, phase in record.usage.items() if phase.get("requests")}
    known_phases = {*_QUESTION_PHASES, _STUDY_PHASE}
    if phases_with_requests - known_phases:
        yield "costs in a phase that is none of a question"
    has_study_step = False
    for step in record.steps:
        if step.get("action") == _STUDY_PHASE or step.get("answer"):
            has_study_step = True
    if _STUDY_PHASE in phases_with_requests and not has_study_step:
        yield "costs of a study, and no step of one"


class _Span(NamedTuple):
    """A part of a document: the characters from `start` to `end`, the last not included."""

    document_id: str
    start: int
    end: int


def _any_spans_overlap(pieces: Iterable[StoredPiece]) -> bool:
    """Whether any two spans of one document among these pieces have characters in common."""
    spans = []
    for piece in pieces:
        if piece.get("kind") == "span":
            document_id = piece.get("document_id") or ""
            start = piece.get("start") or 0
            end = piece.get("end") or 0
            spans.append(_Span(document_id, start, end))
    spans.sort()  # by document, then start
    for span, next_span in pairwise(spans):
        if span.document_id == next_span.document_id and next_span.start < span.end:
            return True
    return False


def _are_spans_in_order(pieces: Iterable[StoredPiece]) -> bool:
    """Whether the spans of each document among these pieces stand in the order of its text."""
    last_start_by_document: dict[str, int] = {}
    for piece in pieces:
        if piece.get("kind") != "span":
            continue
        document_id = piece.get("document_id") or ""
        start = piece.get("start") or 0
        if start < last_start_by_document.get(document_id, 0):
            return False
        last_start_by_document[document_id] = start
    return True


def _share_problems(record: StoredRecord, expected: Expectations) -> Iterator[str]:
    """Yield a phrase where an answer shows less of its documents than its stop reason says, and
    where a text that was cut is not marked as cut."""
    if record.stop_reason == _CUT_TEXT and record.truncated is None:
        yield "a text that was cut, and not how much of it"
    if expected.least_share_shown is None or not record.document_characters:
        return
    share = expected.least_share_shown(record.stop_reason)
    least_characters = share * sum(record.document_characters)
    if _shown_characters(record.shown) < _SHARE_WITHOUT_GAPS * least_characters:
        yield "less of the text shown than its stop reason says"


def _shown_characters(pieces: Iterable[StoredPiece]) -> int:
    """Characters of the pieces together: the length of a span, the text of a generated piece."""
    total = 0
    for piece in pieces:
        if piece.get("kind") == "span":
            total += (piece.get("end") or 0) - (piece.get("start") or 0)
        else:
            total += len(piece.get("text") or "")
    return total


def _place_problems(record: StoredRecord) -> Iterator[str]:
    """Yield the first thing that does not fit between the places of the passages shown, their texts
    and the record's documents."""
    shown_documents = set()
    for piece in record.shown or ():
        if piece.get("kind") == "span" and piece.get("document_id"):
            shown_documents.add(piece["document_id"])
    none_is_of_record = shown_documents.isdisjoint(record.document_ids)
    are_read_as_one = is_joined(record.notes)  # under an id of their own
    if shown_documents and none_is_of_record and not are_read_as_one:
        yield "passages shown of other documents"
        return
    # {} where the sizes are not recorded
    sizes = zip(record.document_ids, record.document_characters or (), strict=False)
    characters_by_document = dict(sizes)
    for piece in record.shown or ():
        problem = _place_problem(piece, characters_by_document)
        if problem is not None:
            yield problem
            return


def _place_problem(piece: StoredPiece, characters_by_document: Mapping[str, int]) -> str | None:
    """What does not fit between the place of a passage shown, its text and its document; None if
    all fits.

    Args:
        piece: The passage.
        characters_by_document: Document id -> characters, of the documents whose size is recorded.
    """
    document_id = piece.get("document_id", "")
    start = piece.get("start") or 0
    end = piece.get("end") or 0
    document_end = characters_by_document.get(document_id, end)  # unknown: as far as the passage
    is_inside = 0 <= start <= end <= document_end
    if not is_inside:
        return "a passage shown from outside of its document"
    text = piece.get("text")
    is_known_span = piece.get("kind") == "span" and document_id in characters_by_document
    if text and is_known_span and len(text) != end - start:
        return "a passage shown whose text is not as long as its place"
    return None


def _length_problems(record: StoredRecord, expected: Expectations) -> Iterator[str]:
    """Yield a phrase where the passages shown are far longer than the method's settings allow: more
    than 2.5 times the characters that so many tokens usually have."""
    if expected.declaration is None or expected.declaration.max_passage_tokens is None:
        return
    usual_characters = expected.characters_per_token * expected.declaration.max_passage_tokens
    if _shown_characters(record.shown) > _MAX_LENGTH_FACTOR * usual_characters:
        yield "longer passages shown than its settings allow"


def _passage_count_problems(record: StoredRecord, max_passages: int | None) -> Iterator[str]:
    """Yield what does not fit between the number of passages shown and the method's settings.

    A page that an application only names as a source is no passage. The stop reason "k" says that
    as many as allowed are shown.

    Args:
        record: The record.
        max_passages: The passages that the settings allow; None for any number.
    """
    if max_passages is None:
        return
    n_passages = 0
    for piece in record.shown or ():
        if piece.get("kind") != "source":
            n_passages += 1
    n_crossings = max(0, len(record.document_ids) - 1)  # a passage may lie in two documents
    if n_passages > max_passages + n_crossings:
        yield "more passages shown than its settings allow"
    if record.stop_reason == "k" and n_passages < max_passages:
        yield "fewer passages shown than its settings ask for"


def _count_probes(record: StoredRecord) -> int:
    """How many steps of a question's own search have the answer of a probe; 0 for records of
    versions that did not store what a probe cost."""
    n_probes = 0
    for step in record.steps:
        is_own = step.get("action") != _STUDY_PHASE
        if is_own and "probe_flops" in step and step.get("p_yes") is not None:
            n_probes += 1
    return n_probes


def _step_problems(record: StoredRecord) -> Iterator[str]:
    """Yield a phrase where the FLOPs so far fall from one step to the next or exceed those of the
    question, and where steps have more probes than the search had requests for them.

    What a study costs, which goes on after the stop, is none of the question's.
    """
    question_flops = 0.0
    for name, phase in record.usage.items():
        flops = phase.get("flops") or {}
        if name != _STUDY_PHASE:
            question_flops += flops.get(DEFAULT_CONVENTION) or 0
    probes = (record.usage.get("search") or {}).get("probes") or {}
    if _count_probes(record) > probes.get("requests", 0):
        yield "probes that no request paid"
    flops_before = 0.0
    for step in record.steps:
        flops_by_convention = step.get("flops")
        if not isinstance(flops_by_convention, dict) or not flops_by_convention:
            continue  # a step of an older run, or one that only says what was chosen
        if step.get("action") == _STUDY_PHASE:
            continue
        flops_now = flops_by_convention.get(DEFAULT_CONVENTION) or 0.0
        if flops_now < flops_before * (1 - _FLOPS_TOLERANCE):
            yield "a step that cost less than the steps before it"
            return
        flops_before = flops_now
    if flops_before > question_flops * (1 + _FLOPS_TOLERANCE) and record.error is None:
        yield "steps that cost more than the question"
