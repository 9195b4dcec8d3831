"""One pass over the whole records of a run: what their texts are, and what does not fit in them.

    found = examine(run)
    found.different_golds(examine(other))     how many questions have other gold answers in the other run
    found.problems                            {"costs below zero": 3}: records by what does not fit

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
from operator import attrgetter
from typing import Literal

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
from reports.declared import Declared, declared, shipped_method
from reports.rescored import RescoredScore, Rescoring

_Hashes = NDArray[np.uint64]
_UNKNOWN = 0  # the hash of a text that the record does not hold
_COLUMNS = ("ids", "questions", "golds", "marks", "documents", "lengths", "spent")
_PHASES = ("search", "answer")  # whose costs are those of a question
_STUDY = "study"  # the phase and the steps behind a question's own stop
_CHARACTERS = 5.0  # of a token, where no prompt says how many
_MANY = 4  # times more characters of a token than usual are none of that model
_LONGER = 2.5  # times more characters of a token than in the first prompt are none of its language
_STATIC = 20  # characters of an answer that a token may stand for
_FRAME = 1500  # characters of a prompt beside what it shows: question, markers, examples
_MOST_RANKING_REQUESTS = 2  # a search that ranks by attention: one with the question, one without
_ROUNDING = 1e-6
_SLOWER = 1.1  # how much longer requests may seem than their question
_EXACT = 0.002  # seconds that two clocks of a process may differ by
_ROUNDED = 0.05  # seconds that are no difference
_DIGITS = 4  # of seconds; two requests that take as long to more digits are one


@dataclass(frozen=True)
class Examined:
    """What one pass over a run's records found.

    The arrays of hashes have one entry a record, in the order of `ids`; 0 stands for a text that
    the record does not hold.

    Args:
        ids: Hashes of the question ids, sorted.
        questions: Hashes of question and options.
        golds: Hashes of gold answers and supporting passages.
        marks: Hashes of the kind of the question.
        documents: Hashes of the ids of the question's documents.
        lengths: Hashes of these documents' numbers of characters.
        spent: Hashes of the answer with all that it cost, seconds included.
        seconds: Two numbers: of the record that took longest, and of all records together.
        problems: What does not fit -> number of records: {"costs below zero": 3}.
    """

    ids: _Hashes
    questions: _Hashes
    golds: _Hashes
    marks: _Hashes
    documents: _Hashes
    lengths: _Hashes
    spent: _Hashes
    seconds: NDArray[np.float64]
    problems: Mapping[str, int]

    @property
    def has_texts(self) -> bool:
        """Whether every record holds its question and gold answers."""
        return bool(np.all(self.golds != _UNKNOWN) and np.all(self.questions != _UNKNOWN))

    @property
    def texts_key(self) -> int:
        """A number that is equal for runs with the same questions, texts and gold answers."""
        return hash((self.ids.tobytes(), self.questions.tobytes(), self.golds.tobytes()))

    def different_golds(self, other: "Examined") -> int:
        """How many questions that both runs have differ in their gold answers."""
        return self._different(other, self.golds, other.golds)

    def different_questions(self, other: "Examined") -> int:
        """How many questions that both runs have differ in their text or options."""
        return self._different(other, self.questions, other.questions)

    def different_marks(self, other: "Examined") -> int:
        """How many questions that both runs have differ in their kind."""
        return self._different(other, self.marks, other.marks)

    def different_documents(self, other: "Examined") -> int:
        """How many questions that both runs have differ in the ids of their documents."""
        return self._different(other, self.documents, other.documents)

    def different_lengths(self, other: "Examined") -> int:
        """How many questions that both runs have differ in the lengths of their documents."""
        return self._different(other, self.lengths, other.lengths)

    def copied(self, other: "Examined") -> int:
        """How many answers of this run the other one has at the same cost, to the last digit of the
        seconds."""
        return len(np.intersect1d(self.spent[self.spent != _UNKNOWN], other.spent))

    def _different(self, other: "Examined", here: _Hashes, there: _Hashes) -> int:
        """How many questions that both runs have differ in a hash that both know.

        Args:
            other: The other run.
            here: A column of hashes of this run, in the order of `ids`.
            there: The same column of the other run.
        """
        a = here
        b = there
        if not np.array_equal(self.ids, other.ids):
            _, ours, theirs = np.intersect1d(self.ids, other.ids, return_indices=True)
            a = here[ours]
            b = there[theirs]
        return int(np.sum((a != b) & (a != _UNKNOWN) & (b != _UNKNOWN)))


class Examination:
    """Examines the records of a run, with their texts, one after the other.

    Args:
        run: The run; its records are not read.
        rescorings: What computes scores again in the same pass.
    """

    def __init__(self, run: StoredRun, rescorings: Sequence[Rescoring] = ()) -> None:
        """Start with empty columns (a hash for each record) and no problem counted."""
        self._columns = {name: array("Q") for name in _COLUMNS}  # a hash for each record
        self._problems = Counter[str]()  # phrase -> records
        self._find = _problem_finder(run)
        self._rescorings = rescorings
        self._longest = 0.0  # seconds of the longest question
        self._total = 0.0  # seconds of all questions

    def add(self, record: StoredRecord) -> None:
        """Examine the next record: add to the columns, the problems and the rescorings."""
        self._columns["ids"].append(_hash(record.question_id))
        self._columns["questions"].append(_question_hash(record))
        self._columns["golds"].append(_gold_hash(record))
        self._columns["marks"].append(_marks_hash(record))
        self._columns["documents"].append(_hash(record.document_ids))
        self._columns["lengths"].append(_lengths_hash(record))
        self._columns["spent"].append(_spent_hash(record))
        self._problems.update(dict.fromkeys(self._find(record), 1))
        seconds = record.seconds or 0.0
        self._longest = max(self._longest, seconds)
        self._total += seconds
        for rescoring in self._rescorings:
            rescoring.add(record)

    def finished(self) -> Examined:
        """What was found in all records that were added, in the order of their ids' hashes."""
        order = np.argsort(np.frombuffer(self._columns["ids"], dtype=np.uint64))
        columns = {}
        for name, column in self._columns.items():
            columns[name] = np.frombuffer(column, dtype=np.uint64)[order]
        seconds = np.array([self._longest, self._total])
        return Examined(**columns, seconds=seconds, problems=self._problems)

    def scores(self) -> dict[str, RescoredScore]:
        """Name of each score that was computed again -> what computing it has found."""
        return {rescoring.name: rescoring.result for rescoring in self._rescorings}


def examine(run: StoredRun) -> Examined:
    """What one pass over the records of a run finds; their texts are read from disk for it."""
    examination = Examination(run)
    for record in run.records_with_texts:
        examination.add(record)
    return examination.finished()


def _hash(value: object) -> int:
    """8 bytes of the blake2b of a value's JSON, as a number; never 0, which is _UNKNOWN."""
    text = canonical_json(value).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little") or 1


def _question_hash(record: StoredRecord) -> int:
    """The hash of a question with its options; _UNKNOWN where the record does not hold it."""
    if record.question is None:
        return _UNKNOWN
    return _hash([record.question, record.options])


def _gold_hash(record: StoredRecord) -> int:
    """The hash of the gold answers with their marks; _UNKNOWN where the record lacks them."""
    gold = record.gold
    if gold is None:
        return _UNKNOWN
    return _hash([gold["answers"], gold.get("supporting")])


def _marks_hash(record: StoredRecord) -> int:
    """The hash of a question's kind; _UNKNOWN where the record does not hold it."""
    found = question_kinds(record.gold_extra)
    if not found:
        return _UNKNOWN
    return _hash(found)


def _lengths_hash(record: StoredRecord) -> int:
    """The hash of the lengths of a question's documents; _UNKNOWN where the record lacks them."""
    lengths = record.document_characters
    if not lengths:
        return _UNKNOWN
    return _hash(lengths)


def _spent_hash(record: StoredRecord) -> int:
    """The hash of a record's id, answer and costs.

    _UNKNOWN where a reply came from the cache, or no seconds were measured to many digits: equal
    costs then do not show that an answer was copied.
    """
    exact = False
    for phase in record.usage.values():
        if phase.get("recalled"):
            return _UNKNOWN
        seconds = phase.get("seconds") or 0
        exact = exact or round(seconds, _DIGITS) != seconds
    if not exact:
        return _UNKNOWN
    return _hash([record.question_id, record.prediction, record.usage])


@dataclass(frozen=True)
class Sizes:
    """Bounds of FLOPs that follow from the sizes of a run's models, worked out once.

    Args:
        least: Convention -> weights of the smallest model that every token meets at least.
        least_of_others: The same for a convention that is not in `least`.
        most: Of each model, (all weights, FLOPs of a pair of positions).
        pooled: FLOPs of the largest head of an encoder, for one text.
    """

    least: Mapping[str, int]
    least_of_others: int
    most: Sequence[tuple[int, int]]
    pooled: int


def _sizes(shapes: Sequence[ModelShape]) -> Sizes | None:
    """The bounds of FLOPs that the sizes of these models give; None without any model."""
    if not shapes:
        return None
    widest = max(map(attrgetter("width"), shapes))
    return Sizes(
        least={
            DEFAULT_CONVENTION: min(map(attrgetter("parameters"), shapes)),
            "executed": min(map(attrgetter("layer_weights"), shapes)),
        },
        least_of_others=min(shape.layer_weights + shape.head_weights for shape in shapes),
        most=[(shape.parameters, shape.flops_per_pair) for shape in shapes],
        pooled=2 * widest * (widest + 1),
    )


def _known_shapes(manifest: RunManifest) -> list[ModelShape]:
    """The sizes of all models of a run; [] where those of any model are not recorded in full."""
    names = set(map(attrgetter("name"), fields(ModelShape)))
    shapes = []
    for role, sizes in manifest.shapes.items():
        shape = None
        if sizes is not None and sizes.keys() == names:
            shape = manifest.shape(role)
        if shape is None:
            return []
        shapes.append(shape)
    if not manifest.models or len(shapes) != len(manifest.models):
        return []
    return shapes


def _problem_finder(run: StoredRun) -> Callable[[StoredRecord], Iterator[str]]:
    """The function that yields a phrase for each thing that does not fit in a record of the run."""
    if run.manifest.imported is not None:
        return _imported_problems
    return partial(_problems, expected=_expected_of(run))


def _expected_of(run: StoredRun) -> "Expected":
    """What the manifest, the settings and the method of a run lead one to expect of its records and
    indexes."""
    unknown = []
    if run.manifest.hashed is not None:
        unknown = [role for role, shape in run.manifest.shapes.items() if not shape]
    return Expected(
        declared=declared(run),
        sizes=_sizes(_known_shapes(run.manifest)),
        unknown=unknown,
        recalls=_may_recall(run),
        has_models=bool(run.manifest.models),
        is_application=_is_application(run, declared(run)),
        characters=_characters_of_a_token(run.manifest),
        prompts=sum(map(len, run.manifest.prompts.values())),
        task=len(run.config.dataset.instruction or ""),
        longest=_longest_answer(run.config),
        evidence=run.config.method.view == "evidence",
        at_once=_questions_at_once(run),
        is_loaded=_backend(run) == "hf",
        roles=_roles(run),
        stops=_stop_check(run),
    )


def index_problems(run: StoredRun) -> Mapping[str, int]:
    """What does not fit in the costs of a run's indexes -> number of indexes; failed ones are not
    looked at."""
    expected = _expected_of(run)
    problems = Counter[str]()
    for line in run.index_lines:
        if not line.failed:
            problems.update(dict.fromkeys(_usage_problems(line.usage.values(), expected), 1))
    return problems


def _stop_check(run: StoredRun) -> Callable[[str, Sequence[Mapping[str, object]]], bool] | None:
    """The function (stop reason, steps) -> whether a search of the run's method with these steps
    may stop for that reason.

    None for a method that does not say, and for a run that does not record the values of settings
    left unset (`manifest.hashed`), on which the answer may depend.
    """
    if run.manifest.hashed is None:
        return None
    method: object = shipped_method(run)
    if isinstance(method, ChecksStops):
        return method.may_stop
    return None


@dataclass(frozen=True)
class Expected:
    """What a run's records and indexes are compared with.

    Args:
        declared: What the method's class says; None if unknown.
        sizes: The bounds of FLOPs by the models' sizes; None where one of these is unknown.
        unknown: Roles whose models' sizes are not recorded.
        recalls: Whether replies may come from the cache of replies.
        has_models: Whether the run names the models that it used.
        is_application: Whether its reader is an application, which need not say what it read.
        characters: Characters of a token.
        prompts: Characters of all prompts together.
        task: Characters of the instruction.
        longest: Most tokens of an answer; None if more may be thought.
        evidence: Whether the supporting passages alone are shown.
        at_once: Most questions in flight; 0 if unknown or sent as a batch.
        is_loaded: Whether the reader is no server.
        roles: The roles of the run's models; None where a search has others.
        stops: (stop reason, steps) -> whether a search of these steps may stop for that reason;
            None where the method does not say.
    """

    declared: Declared | None
    sizes: Sizes | None
    unknown: list[str]
    recalls: bool
    has_models: bool
    is_application: bool
    characters: float
    prompts: int
    task: int
    longest: int | None
    evidence: bool
    at_once: int
    is_loaded: bool
    roles: frozenset[str] | None
    stops: Callable[[str, Sequence[Mapping[str, object]]], bool] | None


def _questions_at_once(run: StoredRun) -> int:
    """Most questions in flight in any start of the run; 0 where that is not recorded, and for
    requests that were sent as a batch."""
    if run.config.model.batch or not run.manifest.starts:
        return 0
    return run.manifest.max_in_flight


def _roles(run: StoredRun) -> frozenset[str] | None:
    """The roles of the models that the run names; None where it searches a corpus, whose encoder is
    not among them."""
    if run.manifest.corpus is not None or run.config.retriever:
        return None
    return frozenset(run.manifest.models)


def _is_application(run: StoredRun, declaration: Declared | None) -> bool:
    """Whether the run's reader is an application by its settings, by the identity that the hash in
    the run's name covers, and by what a shipped method asks."""
    identity = run.manifest.identity("reader")
    may_ask = declaration is None or declaration.asks_application
    return may_ask and "application" in identity and _backend(run) == "application"


def _backend(run: StoredRun) -> str:
    """The back end of the reader: "hf", "endpoint", "application"; "hf" where none is set."""
    return run.config.model_of("reader").backend or "hf"


def _may_recall(run: StoredRun) -> bool:
    """Whether any start of the run used the cache of replies."""
    if run.config.cache is not None:
        return True
    return any("--cache" in " ".join(start.command) for start in run.manifest.starts)


def _characters_of_a_token(manifest: RunManifest) -> float:
    """Characters of a token in the first prompt that the reader was sent; 5 where none is
    recorded."""
    first = manifest.first_prompt("reader")
    if not first.ids or not first.text:
        return _CHARACTERS
    return max(1.0, len(first.text) / len(first.ids))


def _longest_answer(config: StoredConfig) -> int | None:
    """The most tokens that an answer of a loaded reader can have.

    None for another back end, for a reader that thinks, and where no limit is set.
    """
    if config.model.thinking is not None or config.model.backend != "hf":
        return None
    limits = [config.dataset.max_answer_tokens, config.model.max_tokens]
    return max(filter(None, limits), default=None)


def _imported_problems(record: StoredRecord) -> Iterator[str]:
    """Yield what does not fit in a record that another tool made; little is known of its costs."""
    if _is_negative(record.usage):
        yield "costs below zero"


def _problems(record: StoredRecord, expected: Expected) -> Iterator[str]:
    """Yield a phrase for each thing that does not fit in a record: "costs below zero"."""
    if _is_negative(record.usage):
        yield "costs below zero"
    values = record.scores.values()
    if min(values, default=0) < 0 or max(values, default=0) > 1:
        yield "a score below 0 or above 1"
    if _has_other_verdict(record):
        yield "a judge's score that is not its verdict"
    yield from _place_problems(record)
    unknown = any(map(_lacks_tokens, record.usage.values()))
    if unknown and not expected.is_application:
        yield "tokens that are unknown, of models that are no application"
    if expected.declared is None:
        return  # a method of the user's own may ask models that are not counted here
    if record.error is None and not expected.evidence:
        yield from _number_problems(record, expected.declared.most_shown)
        yield from _length_problems(record, expected)
    yield from _step_problems(record)
    yield from _phase_problems(record)
    if record.error is None:
        yield from _answer_problems(record, expected, expected.declared)


def _answer_problems(
    record: StoredRecord, expected: Expected, declaration: Declared
) -> Iterator[str]:
    """Yield what does not fit in the record of a question that a shipped method answered.

    Args:
        record: The record, without an error.
        expected: What it is compared with.
        declaration: What the method's class says, `expected.declared`.
    """
    if declaration.disjoint and not expected.evidence and _overlap(record.shown):
        yield "passages shown that overlap, where the method cuts them once"
    if (
        expected.stops is not None
        and record.steps
        and not expected.stops(record.stop_reason, record.steps)
    ):
        yield "a stop that its steps do not give"
    if expected.stops is not None and _has_other_answer(record):
        yield "an answer that is not the one recorded at its stop"
    phases = [record.usage.get(phase) or {} for phase in _PHASES]
    yield from _usage_problems(phases, expected)
    if declaration.one_request:
        yield from _time_problems(record, phases, expected)
    if expected.is_application:
        yield from _application_problems(phases)
    elif expected.has_models:
        yield from _request_problems(record, phases, expected)
        yield from _token_problems(record, phases, expected)


_VERDICT_SCORES = {"yes": 1.0, "no": 0.0}


def _has_other_verdict(record: StoredRecord) -> bool:
    """Whether a judge noted yes or no for the answer, and its score in the record is another than 1
    for yes, 0 for no."""
    for name, judged in judgements_of(record.notes).items():
        score = record.scores.get(name)
        if score is None:
            continue
        if _VERDICT_SCORES.get(judged.get("verdict"), score) != score:
            return True
    return False


def _lacks_tokens(phase: PhaseUsage) -> bool:
    """Whether tokens of the phase are unknown, or known only as a sum of those read and written."""
    return bool(phase.get("tokens_unknown") or phase.get("tokens_total"))


def _is_negative(value: object) -> bool:
    """Whether a value is a number below zero, or a mapping that holds one at any depth.

    {"search": {"seconds": -1.0}} -> True
    """
    if isinstance(value, dict):
        return any(map(_is_negative, value.values()))
    return isinstance(value, int | float) and value < 0


_Count = Literal[
    "requests", "encoder_requests", "tokens_in", "tokens_out", "tokens_cached", "tokens_reused",
    "seconds", "queued", "retries", "texts",
]  # fmt: skip
"""A cost of a phase that is a number."""


def _sum(phases: Iterable[PhaseUsage], *keys: _Count) -> float:
    """The sum of the costs named `keys` over phases; one that a phase lacks is 0."""
    total = 0.0
    for phase in phases:
        for key in keys:
            total += phase.get(key) or 0
    return total


def _model_requests(phases: Iterable[PhaseUsage]) -> float:
    """The requests of phases to models that write, without those to encoders and rerankers."""
    return _sum(phases, "requests") - _sum(phases, "encoder_requests")


def _usage_problems(phases: Iterable[PhaseUsage], expected: Expected) -> Iterator[str]:
    """Yield what does not fit between tokens, FLOPs and models of a phase, a sentence each.

    Args:
        phases: The costs of each phase of a record.
        expected: What the run says of its models and its cache of replies.
    """
    for phase in phases:
        if phase.get("recalled") and not expected.recalls:
            yield "replies from a cache that no start of the run had"
        if phase.get("uncounted") and expected.sizes:
            yield "calls without FLOPs, of models whose sizes are recorded"
        for role, used in (phase.get("roles") or {}).items():
            if used and expected.roles and role not in expected.roles:
                yield "FLOPs of a model that the run does not name"
            if used and role in expected.unknown:
                yield "FLOPs of a model whose sizes are not recorded"
        flops = phase.get("flops") or {}
        if not flops.get(DEFAULT_CONVENTION) or phase.get("uncounted") or not expected.sizes:
            continue  # its FLOPs were not counted, or cannot be computed again
        for convention, total in flops.items():
            if not _are_flops_of_tokens(convention, total, phase, expected.sizes):
                yield "FLOPs that are not those of its tokens"


def _time_problems(
    record: StoredRecord, phases: Sequence[PhaseUsage], expected: Expected
) -> Iterator[str]:
    """Yield what does not fit between the seconds of a question, its one request, and its waiting.

    Args:
        record: The record.
        phases: Its costs of search and answer.
        expected: What it is compared with.
    """
    took = record.seconds
    requested = _sum(phases, "seconds")
    if took and expected.at_once and not expected.recalls and requested > _SLOWER * took + _EXACT:
        yield "requests that took longer than their question"
    alone = expected.is_loaded and expected.at_once == 1
    if alone and _sum(phases, "queued") > _ROUNDED:
        yield "waiting for other questions, where one was asked at a time"
    if expected.is_loaded and _sum(phases, "retries"):
        yield "repeated requests to a server, where the model was loaded"


def _are_flops_of_tokens(convention: str, total: float, phase: PhaseUsage, sizes: Sizes) -> bool:
    """Whether FLOPs are possible for the tokens of a phase.

    The least possible are those of the smallest model without attention, the most those of the
    largest model with every token attending to all.

    Args:
        convention: How the FLOPs are counted.
        total: The FLOPs.
        phase: The costs of the phase, with its tokens.
        sizes: The bounds by the sizes of the run's models.
    """
    tokens = _sum([phase], "tokens_in", "tokens_out")
    context = tokens + _sum([phase], "tokens_cached")
    if phase.get("encoder_requests"):  # encoders and rerankers compute no logits of words
        convention = "executed"
    least = 2 * sizes.least.get(convention, sizes.least_of_others) * tokens
    most = max(2 * weights * tokens + pair * tokens * context for weights, pair in sizes.most)
    pooled = sizes.pooled * (1 + _sum([phase], "texts", "requests"))
    return 0.9 * least <= total <= 1.1 * (most + pooled)


def _application_problems(phases: Sequence[PhaseUsage]) -> Iterator[str]:
    """Yield a phrase where an application's answer took no request.

    Its tokens are what its reply says, which may be none where it found nothing to ask a model
    about, so they are not checked.
    """
    if not _sum(phases, "requests"):
        yield "an answer without a request"


def _request_problems(
    record: StoredRecord, phases: Sequence[PhaseUsage], expected: Expected
) -> Iterator[str]:
    """Yield what does not fit between an answer, its requests and what the method declares.

    Args:
        record: The record.
        phases: Its costs of search and answer, in this order.
        expected: What it is compared with.
    """
    requests = _model_requests(phases)
    tokens_out = _sum(phases, "tokens_out")
    if not requests and not _must_ask(record, expected.declared):
        return
    if not requests or not _sum(phases, "tokens_in"):
        yield "an answer without a request, or without a token that was read"
        return
    # A script's replies take no time; a model with recorded sizes is no script.
    if expected.sizes and not _sum(phases, "seconds"):
        yield "an answer that took no time"
    prediction = record.prediction
    has_probes = any("probes" in phase for phase in phases)
    if prediction and prediction.strip() and not tokens_out and not has_probes:
        yield "an answer without a token that was written"
    if expected.declared is None or not expected.declared.one_request:
        return
    search, answer = phases
    search_requests = _model_requests([search])
    if _model_requests([answer]) != 1 or search_requests > _MOST_RANKING_REQUESTS:
        yield "several requests, where the method makes one"
    yield from _reply_problems(record, phases, expected)


def _reply_problems(
    record: StoredRecord, phases: Sequence[PhaseUsage], expected: Expected
) -> Iterator[str]:
    """Yield what does not fit between an answer and the tokens written, where the answer is one
    reply.

    Args:
        record: The record.
        phases: Its costs of search and answer.
        expected: What it is compared with.
    """
    prediction = record.prediction or ""
    tokens_out = _sum(phases, "tokens_out")
    answers_itself = expected.is_application or not tokens_out
    most_characters = _MANY * expected.characters * tokens_out + _STATIC
    if not answers_itself and len(prediction) > most_characters:
        yield "fewer tokens written than the answer has"
    elif expected.is_loaded and tokens_out and len(prediction.split()) > tokens_out:
        yield "fewer tokens written than the answer has words"
    if expected.longest is None:
        return
    if tokens_out > expected.longest:
        yield "more tokens written than an answer may have"
    cut = 0
    for phase in phases:
        replies = phase.get("replies") or {}
        cut += replies.get("unfinished", 0)
    if cut and prediction and 2 * len(prediction) < tokens_out:
        yield "an answer that is far shorter than the reply, which was cut at its limit"


def _must_ask(record: StoredRecord, declaration: Declared | None) -> bool:
    """Whether a model was asked for the answer of a record. A method of several requests may find
    nothing to ask about; then it shows nothing, and no step of it read a token."""
    if declaration is None or declaration.one_request or record.shown:
        return True
    return any(step.get("tokens") for step in record.steps)


def _token_problems(
    record: StoredRecord, phases: Sequence[PhaseUsage], expected: Expected
) -> Iterator[str]:
    """Yield what does not fit between the tokens read and the passages shown.

    Args:
        record: The record.
        phases: Its costs of search and answer.
        expected: What it is compared with.
    """
    shown = _shown_characters(record.shown)
    fresh = _sum(phases, "tokens_in")
    read = fresh + _sum(phases, "tokens_cached", "tokens_reused")
    if shown > _MANY * expected.characters * read:
        yield "fewer tokens than the passages shown have"
    if expected.declared is None:
        return
    if expected.declared.one_request and not expected.declared.reads_documents and shown:
        yield "passages shown, where the method reads no document"
    known = expected.declared.one_request and not _sum(phases, "encoder_requests")
    most = 2.5 * (shown + expected.prompts + 2 * expected.task) + _FRAME
    if known and fresh * expected.characters > most:
        yield "more tokens than the prompt and the passages shown have"


def _has_other_answer(record: StoredRecord) -> bool:
    """Whether the last step of a question's own search holds another answer than the record."""
    own = [step for step in record.steps if step.get("action") != _STUDY]
    answer = own[-1].get("answer") if own else None
    return answer is not None and answer.strip() != (record.prediction or "").strip()


def _phase_problems(record: StoredRecord) -> Iterator[str]:
    """Yield a phrase for costs in a phase that is none of a question, and for costs of a study
    without a step of one."""
    names = {name for name, phase in record.usage.items() if phase.get("requests")}
    if names - {*_PHASES, _STUDY}:
        yield "costs in a phase that is none of a question"
    studied = any(step.get("action") == _STUDY or step.get("answer") for step in record.steps)
    if _STUDY in names and not studied:
        yield "costs of a study, and no step of one"


def _overlap(pieces: Iterable[StoredPiece]) -> bool:
    """Whether any two spans of one document among these pieces have characters in common."""
    spans: list[tuple[str, int, int]] = []  # document, start and end
    for piece in pieces:
        if piece.get("kind") == "span":
            place = (piece.get("document_id") or "", piece.get("start") or 0, piece.get("end") or 0)
            spans.append(place)
    for (document, _, end), (next_document, next_start, _) in pairwise(sorted(spans)):
        if document == next_document and next_start < end:
            return True
    return False


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
    shown = set()
    for piece in record.shown or ():
        if piece.get("kind") == "span" and piece.get("document_id"):
            shown.add(piece["document_id"])
    joined = is_joined(record.notes)
    if shown and not joined and shown.isdisjoint(record.document_ids):
        yield "passages shown of other documents"
        return
    sizes = dict(zip(record.document_ids, record.document_characters or (), strict=False))
    for piece in record.shown or ():
        problem = _place_problem(piece, sizes)
        if problem is not None:
            yield problem
            return


def _place_problem(piece: StoredPiece, sizes: Mapping[str, int]) -> str | None:
    """What does not fit between the place of a passage shown, its text and its document; None if
    all fits.

    Args:
        piece: The passage.
        sizes: Document id -> characters, of the documents whose size is recorded.
    """
    document = piece.get("document_id", "")
    start = piece.get("start") or 0
    end = piece.get("end") or 0
    if start < 0 or end < start or end > sizes.get(document, end):
        return "a passage shown from outside of its document"
    text = piece.get("text")
    in_one_piece = piece.get("kind") == "span" and document in sizes
    if text and in_one_piece and len(text) != end - start:
        return "a passage shown whose text is not as long as its place"
    return None


def _length_problems(record: StoredRecord, expected: Expected) -> Iterator[str]:
    """Yield a phrase where the passages shown are far longer than the method's settings allow."""
    if expected.declared is None or expected.declared.most_tokens_shown is None:
        return
    most = expected.declared.most_tokens_shown
    if _shown_characters(record.shown) > _LONGER * expected.characters * most:
        yield "longer passages shown than its settings allow"


def _number_problems(record: StoredRecord, most: int | None) -> Iterator[str]:
    """Yield what does not fit between the number of passages shown and the method's settings.

    Args:
        record: The record.
        most: The passages that the settings allow; None for any number.
    """
    if most is None:
        return
    number = 0
    for piece in record.shown or ():
        if piece.get("kind") != "source":
            number += 1
    crossings = max(0, len(record.document_ids) - 1)  # a passage may lie in two documents
    if number > most + crossings:
        yield "more passages shown than its settings allow"
    if record.stop_reason == "k" and number < most:
        yield "fewer passages shown than its settings ask for"


def _step_problems(record: StoredRecord) -> Iterator[str]:
    """Yield a phrase where the FLOPs so far fall from one step to the next, or exceed those of the
    question."""
    total = 0.0
    for name, phase in record.usage.items():
        flops = phase.get("flops") or {}
        if name != _STUDY:
            total += flops.get(DEFAULT_CONVENTION) or 0
    before = 0.0
    for step in record.steps:
        so_far = step.get("flops")
        if not so_far or not isinstance(so_far, dict) or step.get("action") == "study":
            continue  # of older runs, and of steps that only say what was chosen
        now = so_far.get(DEFAULT_CONVENTION) or 0.0
        if now < before * (1 - _ROUNDING):
            yield "a step that cost less than the steps before it"
            return
        before = now
    if before > total * (1 + _ROUNDING) and record.error is None:
        yield "steps that cost more than the question"
