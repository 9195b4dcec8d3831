"""What a run, a question and a step of a search cost, by convention (harness.cost.flops).

    phase_costs(run, "search").tokens     -> [812.0, 790.0, ...]      one a question answered
    question_tflops(run)                  -> {"q1": 12.5, ...}     with a share of the indexes

    share of an index = what building it cost / questions of this run about its document

A question with a document of its own pays the whole index. An index that was found in the cache
costs what building it did. The papers print search and answer alone; that is `with_index=False`.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from harness.cost.flops import CONVENTIONS, DEFAULT_CONVENTION
from harness.cost.prices import ENCODER_ROLES, money_spent
from harness.cost.usage import PhaseUsage, Usage, add_usage, sum_phases, tokens_of
from harness.engine.made_documents import joined_id
from harness.errors import UnknownName
from harness.storage.record_columns import Floats, RecordColumns
from harness.storage.record_notes import is_joined
from harness.storage.records import IndexOwner, StoredRecord, StoredStep
from harness.storage.run_folder import StoredRun
from reports import facts

TERA = 1e12
PROBE_NOTE_START = "of the search, probes: "
_FULL_CONVENTION_ONLY = (
    "this run kept the FLOPs of its steps under the convention full alone: --convention full "
    "shows them"
)


def check_convention(convention: str) -> None:
    """Raise UnknownName unless `convention` is a way to count FLOPs."""
    if convention not in CONVENTIONS:
        raise UnknownName("FLOPs convention", convention, CONVENTIONS)


@dataclass(frozen=True, slots=True)
class PhaseCosts:
    """What one phase cost, an entry for each question (or index).

    All but `tflops` are empty where a run made elsewhere, or an older one, has none.

    Args:
        tokens: Tokens read and written, without cached ones.
        tflops: TFLOPs (1e12 FLOPs); None where a model's shape is unknown.
        seconds: Seconds of the calls themselves.
        tokens_in: Tokens read.
        tokens_out: Tokens written.
        queued: Seconds that the calls waited (harness/cost/flops.py).
    """

    tokens: Sequence[float]
    tflops: Sequence[float] | None
    seconds: Sequence[float] = ()
    tokens_in: Sequence[float] = ()
    tokens_out: Sequence[float] = ()
    queued: Sequence[float] = ()


_UNKNOWN_COSTS = PhaseCosts([], None, [])
_COST_KEYS = ("tokens_in", "tokens_out", "seconds", "queued")


def phase_costs(run: StoredRun, phase: str, convention: str = DEFAULT_CONVENTION) -> PhaseCosts:
    """Costs of a phase for each question answered or document indexed.

    Failed questions and indexes are left out: a half-spent cost says nothing about what an answer
    costs. Where an index belongs to a question, a document's cost is that of all its indexes. A run
    made elsewhere has costs of the whole question alone, which stand under "answer". What an
    application computes when it searches is unknown.

    Args:
        run: The run.
        phase: "search" or "answer" for questions, "index" for documents.
        convention: How FLOPs are counted.
    """
    if phase != "answer" and run.manifest.imported is not None:
        return _UNKNOWN_COSTS
    if phase == "index":
        return _costs_of_usages(_index_usages(run), convention)
    question_costs = _question_costs(run.columns, phase, convention)
    if phase == "search" and facts.is_application(run):
        return replace(question_costs, tflops=None)
    return question_costs


def _question_costs(columns: RecordColumns, phase: str, convention: str) -> PhaseCosts:
    """The costs of a phase, an entry for each answered question.

    A cost that one of them lacks is left empty for all, where the question had the phase at all;
    TFLOPs are None where some calls were not counted; all entries are 0 for a phase that the run
    does not have.

    Args:
        columns: The records of a run.
        phase: "search" or "answer".
        convention: How FLOPs are counted.
    """
    is_answered = columns.answered
    if phase not in columns.phases:
        zeros = _as_floats(np.zeros(int(is_answered.sum())))
        return PhaseCosts(zeros, zeros, zeros, zeros, zeros, zeros)
    is_answered_with_phase = columns.phases[phase] & is_answered
    known_columns = {}
    for key in _COST_KEYS:
        if columns.has_cost(phase, key)[is_answered_with_phase].all():
            known_columns[key] = _as_floats(columns.cost(phase, key)[is_answered])
    tflops = None
    if not columns.cost(phase, "uncounted")[is_answered].any():
        tflops = _as_floats(columns.cost(phase, "flops", convention)[is_answered] / TERA)
    return PhaseCosts(tokens=_tokens_by_question(columns, phase), tflops=tflops, **known_columns)


def _tokens_by_question(columns: RecordColumns, phase: str) -> Sequence[float]:
    """Tokens read and written in a phase by each answered question, as whole numbers; [] where they
    are not known for one of these. A question without the phase has 0.

    They are "tokens_in" and "tokens_out", or of a run made elsewhere "tokens_total".
    """
    has_in_and_out = columns.has_cost(phase, "tokens_in") & columns.has_cost(phase, "tokens_out")
    is_known = has_in_and_out | columns.has_cost(phase, "tokens_total") | ~columns.phases[phase]
    if not is_known[columns.answered].all():
        return []
    tokens_in_and_out = columns.cost(phase, "tokens_in") + columns.cost(phase, "tokens_out")
    tokens = np.trunc(tokens_in_and_out + columns.cost(phase, "tokens_total"))
    return _as_floats(tokens[columns.answered])


def _as_floats(column: Floats) -> Sequence[float]:
    """The column as a sequence of Python floats."""
    return array("d", column.tobytes())


def _index_usages(run: StoredRun) -> list[PhaseUsage]:
    """What the indexes of each document cost: a usage for each document, the sum over its indexes.
    Failed indexes are left out."""
    usage_by_document: dict[str, Usage] = {}
    for line in run.index_lines:
        if not line.failed:
            document_sum = usage_by_document.setdefault(line.document_id, {})
            add_usage(document_sum, line.usage)  # adds to the sum in place
    return [usage.get("index", {}) for usage in usage_by_document.values()]


def _costs_of_usages(usages: Iterable[PhaseUsage], convention: str) -> PhaseCosts:
    """The costs of usages as columns, an entry for each usage.

    A cost that one of them lacks is left empty for all. The usages are read once: a run may have a
    million questions.

    Args:
        usages: What a phase cost, one a question or document; {} for one without calls.
        convention: How FLOPs are counted.
    """
    columns = {key: array("d") for key in _COST_KEYS}
    tokens: array[float] | None = array("d")
    tflops: array[float] | None = array("d")
    for usage in usages:
        if usage:
            missing_keys = [key for key in columns if key not in usage]
            for key in missing_keys:
                del columns[key]  # of a run made elsewhere
        for key, column in columns.items():
            value = cast(float, usage.get(key, 0))
            column.append(value)
        n_tokens = tokens_of_phase(usage)
        if n_tokens is None:
            tokens = None
        elif tokens is not None:
            tokens.append(n_tokens)
        if usage.get("uncounted"):
            tflops = None
        if tflops is not None:
            tflops.append(_tflops_of_usage(usage, convention))
    return PhaseCosts(tokens=tokens or [], tflops=tflops, **columns)


def tokens_of_phase(usage: PhaseUsage) -> int | None:
    """Tokens read and written in a phase, {} being one without calls; None where they are not
    known.

    {"tokens_in": 90, "tokens_out": 10}     -> 100
    {"tokens_total": 100}                   -> 100
    {"seconds": 1.0}                        -> None
    """
    has_in_and_out = {"tokens_in", "tokens_out"} <= usage.keys()
    if not usage or "tokens_total" in usage or has_in_and_out:
        return tokens_of(usage)
    return None


def sum_search_and_answer(search: Sequence[float], answer: Sequence[float]) -> Sequence[float]:
    """A cost of search and answer together, for each question.

    A run made elsewhere has all of it under `answer`, and [] for `search`; `answer` is then
    returned as it is.
    """
    if not search or not answer:
        return answer
    return _as_floats(np.asarray(search) + np.asarray(answer))


def is_latency(run: StoredRun, queued: Sequence[float]) -> bool:
    """Whether the seconds of a run's calls hold no time in a queue: `queued` is known, or questions
    ran in turn.

    Of a batch (model.batch), the time of a single request is not known.
    """
    if run.config.model.batch:
        return False
    if queued:
        return True
    return run.manifest.max_in_flight == 1


def part_costs(
    run: StoredRun,
    part: Literal["probes", "thinking"],
    phases: Sequence[str],
    convention: str = DEFAULT_CONVENTION,
) -> PhaseCosts:
    """What a part of phases cost, an entry for each answered question; empty where no usage has it.

    Only tokens and TFLOPs are known of a part; TFLOPs are None where some calls were not counted.

    Args:
        run: The run.
        part: "probes" or "thinking".
        phases: The phases whose parts are summed: "search", "answer".
        convention: How FLOPs are counted.
    """
    columns = run.columns
    some_phase_has_it = any(columns.has_cost(phase, part).any() for phase in phases)
    if not some_phase_has_it:
        return _UNKNOWN_COSTS
    n_records = len(columns)
    is_answered = columns.answered
    tokens = np.zeros(n_records)
    flops = np.zeros(n_records)
    uncounted_calls = np.zeros(n_records)
    for phase in phases:
        tokens += columns.cost(phase, part, "tokens")
        flops += columns.cost(phase, part, "flops", convention)
        uncounted_calls += columns.cost(phase, "uncounted")
    tflops = None
    if not uncounted_calls[is_answered].any():
        tflops = _as_floats(flops[is_answered] / TERA)
    return PhaseCosts(tokens=_as_floats(tokens[is_answered]), tflops=tflops, seconds=[])


def question_tflops(
    run: StoredRun, convention: str = DEFAULT_CONVENTION, *, with_index: bool = True
) -> dict[str, float]:
    """Question id -> TFLOPs (1e12 FLOPs), of answered questions.

    {} where a model's FLOPs are not known, or the run folder lacks indexes that its summary counts.

    Args:
        run: The run.
        convention: How FLOPs are counted.
        with_index: Whether a question pays its share of the indexes.
    """
    column = tflops_column(run, convention, with_index=with_index)
    return _by_question(run, column)


def tflops_column(run: StoredRun, convention: str, *, with_index: bool) -> Floats | None:
    """TFLOPs (1e12 FLOPs) of each question in the order of the records, nan for a failed one.

    Args:
        run: The run.
        convention: How FLOPs are counted.
        with_index: Whether a question pays its share of the indexes.

    Returns:
        The column; None where a model's FLOPs are not known, or the run folder lacks indexes that
        its summary counts.
    """

    def tflops_of_phase(phase: str) -> Floats | None:
        """TFLOPs of each question in a phase; None where some of its tokens were not counted."""
        if run.columns.cost(phase, "uncounted")[run.columns.answered].any():
            return None
        return run.columns.cost(phase, "flops", convention) / TERA

    def tflops_of_index(usage: PhaseUsage) -> float | None:
        """TFLOPs of an index; None where some of its tokens were not counted."""
        if usage.get("uncounted"):
            return None
        return _tflops_of_usage(usage, convention)

    if not with_index:
        return _cost_column(run, cost_of_phase=tflops_of_phase, cost_of_index=None)
    return _cost_column(run, cost_of_phase=tflops_of_phase, cost_of_index=tflops_of_index)


def question_money(run: StoredRun, *, with_index: bool = True) -> dict[str, float]:
    """Question id -> money, of answered questions.

    {} where no server took any, or a price is unknown.

    Args:
        run: The run.
        with_index: Whether a question pays its share of the indexes.
    """
    if not is_billed(run):
        return {}

    def money_of_phase(phase: str) -> Floats | None:
        """Money of each question in a phase; None where it is unknown."""
        return _phase_money(run, phase)

    def money_of_index(usage: PhaseUsage) -> float | None:
        """Money of an index; None where it is unknown."""
        return money_spent(usage, run.prices)

    if not with_index:
        return _by_question(run, _cost_column(run, money_of_phase, cost_of_index=None))
    return _by_question(run, _cost_column(run, money_of_phase, money_of_index))


def question_tokens(run: StoredRun, *, with_index: bool = True) -> dict[str, float]:
    """Question id -> tokens read and written, without cached ones, of answered questions.

    {} where those of a question or an index are not known.

    Args:
        run: The run.
        with_index: Whether a question pays its share of the indexes.
    """

    def tokens_of_questions(phase: str) -> Floats | None:
        """Tokens of each question in a phase, 0 for a failed one; None where some are not known."""
        if phase not in run.columns.phases:
            return np.zeros(len(run.columns))
        tokens = _tokens_by_question(run.columns, phase)
        if len(tokens) == 0:
            return None
        column = np.zeros(len(run.columns))
        column[run.columns.answered] = tokens
        return column

    cost_of_index = None
    if with_index:
        cost_of_index = tokens_of_phase
    column = _cost_column(run, cost_of_phase=tokens_of_questions, cost_of_index=cost_of_index)
    return _by_question(run, column)


def first_missing_price(run: StoredRun, total: PhaseUsage) -> str:
    """The first price that is not set, and without which the run's money is unknown.

        a reranker was billed, and reranker.price is not set     -> "reranker.price of the reranker"
        the reader was billed, and model.price is not set        -> "model.price of the reader"

    Args:
        run: The run.
        total: Its usage, phases and indexes together.

    Returns:
        The words; "" where no price is lacking.
    """
    unpriced = sorted(
        role for role in total.get("billed") or () if run.prices.of_role(role) is None
    )
    if not unpriced:
        return ""
    role = unpriced[0]
    if role in ENCODER_ROLES:
        return f"{role}.price of the {role}"
    return f"model.price of the {role}"


def usage_of_run(run: StoredRun) -> Usage:
    """The costs of all questions and of the indexes of a run, by phase."""
    usage_by_phase = run.columns.usage_sum()
    for line in run.index_lines:
        add_usage(usage_by_phase, line.usage)  # adds to the sum in place
    return usage_by_phase


def why_money_is_unknown(run: StoredRun) -> str:
    """Why servers or an application took money that is unknown, in words; "" where they took none,
    or it is known."""
    total = sum_phases([usage_of_run(run)])
    missing_price = first_missing_price(run, total)
    if missing_price:
        return f"{missing_price} is not set"
    if total.get("money_unknown"):
        return "neither replies nor a price say it"
    return ""


def _phase_money(run: StoredRun, phase: str) -> Floats | None:
    """Money of a phase for each question; None where that of an answered question is not known.

    It is what replies say ("charged"), and the tokens of each billed role times its price for
    1,000,000 tokens, as harness.cost.prices.money counts it.
    """
    columns = run.columns
    is_answered = columns.answered
    if columns.cost(phase, "money_unknown")[is_answered].any():
        return None
    money_of_questions = columns.cost(phase, "charged")
    for role in _billed_roles(columns, phase):
        price = run.prices.of_role(role)
        if price is None:
            if columns.has_cost(phase, "billed", role)[is_answered].any():
                return None
            continue
        input_money = price["input"] * columns.cost(phase, "billed", role, "input")
        cached_money = price["cached"] * columns.cost(phase, "billed", role, "cached")
        output_money = price["output"] * columns.cost(phase, "billed", role, "output")
        money_of_questions += (input_money + cached_money + output_money) / 1e6
    return money_of_questions


def _billed_roles(columns: RecordColumns, phase: str) -> list[str]:
    """The roles whose models a server billed in a phase, each once.

    Columns of costs are keyed by their path in a usage: ("answer", "billed", "reader", "input").
    """
    roles: dict[str, None] = {}  # an ordered set
    for path in columns.usage:
        if path[:2] == (phase, "billed"):
            roles[path[2]] = None
    return list(roles)


def _by_question(run: StoredRun, column: Floats | None) -> dict[str, float]:
    """Question id -> its entry in a column, of the answered questions; {} for no column."""
    if column is None:
        return {}
    answered = run.columns.answered
    ids = compress(run.columns.ids, answered.tolist())
    return dict(zip(ids, column[answered].tolist(), strict=True))


def is_billed(run: StoredRun) -> bool:
    """Whether a server or an application took money for any question or index of the run, as far as
    the records say."""
    if not {"billed", "charged"}.isdisjoint(run.cost_keys):
        return True
    return any(_has_billed_phase(line.usage) for line in run.index_lines)


def _has_billed_phase(usage: Usage) -> bool:
    """Whether a server took money for tokens in any phase of a usage."""
    return any("billed" in phase for phase in usage.values())


def index_money(run: StoredRun) -> list[float]:
    """Money of each index that was built; [] where no server took any, or a price is unknown."""
    if not is_billed(run):
        return []
    amounts = []
    for line in run.index_lines:
        if line.failed:
            continue
        amount = money_spent(line.usage.get("index", {}), run.prices)
        if amount is None:
            return []
        amounts.append(amount)
    return amounts


def run_money(run: StoredRun) -> float | None:
    """Money of the whole run: of failed questions, of indexes (what building them cost) and of its
    judges.

    None where nobody took any, or a price is unknown.
    """
    judges = list(run.manifest.judges.values())
    some_judge_is_billed = any("billed" in judge.usage for judge in judges)
    if not is_billed(run) and not some_judge_is_billed:
        return None
    usage_of_all_phases = sum_phases([usage_of_run(run)])
    amounts = [money_spent(usage_of_all_phases, run.prices)]
    amounts += [money_spent(judge.usage, judge.prices) for judge in judges]
    known_amounts = [amount for amount in amounts if amount is not None]
    if len(known_amounts) < len(amounts):
        return None
    return float(sum(known_amounts))


_CostOfUsage = Callable[[PhaseUsage], float | None]
"""What a phase's usage cost; None where it is not known."""


def _cost_column(
    run: StoredRun,
    cost_of_phase: Callable[[str], Floats | None],
    cost_of_index: _CostOfUsage | None,
) -> Floats | None:
    """The cost of each question in the order of the records, nan for a failed one.

    Args:
        run: The run.
        cost_of_phase: Phase -> what it cost each question; None where that is unknown.
        cost_of_index: What an index cost, from its usage; None where a question pays no share.

    Returns:
        The column; None where the cost of a phase or of an index is not known.
    """
    search_costs = cost_of_phase("search")
    answer_costs = cost_of_phase("answer")
    if search_costs is None or answer_costs is None:
        return None
    column = np.where(run.columns.failed, np.nan, search_costs + answer_costs)
    if cost_of_index is None:
        return column
    index_shares = _index_shares(run, cost_of_index)
    if index_shares is None:
        return None
    for group in _groups_with_same_indexes(run.columns, index_shares):
        shares_of_group = sum(index_shares.get(owner, 0.0) for owner in group.owners)
        column[group.records] += shares_of_group
    return column


def _index_shares(run: StoredRun, cost_of_index: _CostOfUsage) -> dict[IndexOwner, float] | None:
    """What each index costs each question that needs it: its cost over the number of these
    questions.

    {("d1", None): 12.0} with 4 questions about d1 -> {("d1", None): 3.0}

    Args:
        run: The run.
        cost_of_index: Gives the cost of an index from its usage.

    Returns:
        Index -> share; None where the cost of an index is not known, or documents.jsonl lacks
        some.
    """
    usage_by_index = {line.owner: line.usage for line in run.index_lines if not line.failed}
    cost_by_index: dict[IndexOwner, float] = {}
    for owner, usage in usage_by_index.items():
        index_cost = cost_of_index(usage.get("index", {}))
        if index_cost is None:
            return None
        cost_by_index[owner] = index_cost
    n_documents = run.summary.index.documents
    indexed_documents = {owner.document_id for owner in cost_by_index}
    if len(indexed_documents) < n_documents:
        return None
    questions_by_index: Counter[IndexOwner] = Counter()
    whole_run = run.whole_run or run
    for group in _groups_with_same_indexes(whole_run.columns, cost_by_index):
        for owner in group.owners:
            if owner in cost_by_index:
                questions_by_index[owner] += len(group.records)
    shares = {}
    for owner, n_questions in questions_by_index.items():
        shares[owner] = cost_by_index[owner] / n_questions
    return shares


@dataclass(frozen=True)
class _RecordGroup:
    """Records that may have needed the same indexes.

    Args:
        records: The rows of the records in the run's columns.
        owners: What these indexes belong to.
    """

    records: NDArray[np.int64]
    owners: Sequence[IndexOwner]


def _groups_with_same_indexes(
    columns: RecordColumns, cost_by_index: Mapping[IndexOwner, float]
) -> Iterator[_RecordGroup]:
    """Yield the records in groups that may have needed the same indexes.

    A group holds the records with the same documents, read as one or not; where an index belongs to
    a question, each record is a group of its own.

    Args:
        columns: The records.
        cost_by_index: Index -> its cost; nothing is yielded where there is none.
    """
    if not cost_by_index:
        return
    is_joined_record = columns.notes.where(is_joined)
    some_belong_to_a_question = any(owner.question_id is not None for owner in cost_by_index)
    group_of_record = _group_of_each_record(
        columns, is_joined_record, one_for_each_record=some_belong_to_a_question
    )
    for records in _rows_by_group(group_of_record):
        first_record = int(records[0])
        question_id = columns.ids[first_record]
        documents = columns.documents.of_record(first_record)
        owners = _possible_owners(
            question_id, documents, is_joined=bool(is_joined_record[first_record])
        )
        yield _RecordGroup(records, owners)


def _group_of_each_record(
    columns: RecordColumns, is_joined_record: NDArray[np.bool_], *, one_for_each_record: bool
) -> NDArray[np.int64]:
    """The number of each record's group: equal for records with the same documents, read as one or
    not. Four records on d1, d2, d1 and, joined, on d1 and d2: [0, 1, 0, 2].

    Args:
        columns: The records.
        is_joined_record: Whether the documents of each record were read as one [records].
        one_for_each_record: Whether each record is a group of its own.
    """
    documents_of_record = columns.documents.positions.astype(np.int64)
    own_number = np.zeros(len(columns), dtype=np.int64)
    if one_for_each_record:
        own_number = np.arange(len(columns), dtype=np.int64)
    # Records whose three numbers are equal are one group.
    group_keys = np.stack([documents_of_record, is_joined_record.astype(np.int64), own_number])
    _, group_of_record = np.unique(group_keys, axis=1, return_inverse=True)
    return group_of_record.reshape(-1)


def _rows_by_group(group_of_row: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The rows of each group, in their order: [0, 1, 0] -> [[0, 2], [1]]."""
    sorted_rows = np.argsort(group_of_row, kind="stable")
    group_starts = np.flatnonzero(np.diff(group_of_row[sorted_rows])) + 1
    return np.split(sorted_rows, group_starts)


def _possible_owners(
    question_id: str, documents: Sequence[str], *, is_joined: bool
) -> list[IndexOwner]:
    """The owners of the indexes that a question may have needed: of each document, the index that
    all questions share and the question's own.

        ("q1", ["d1"], is_joined=False)     -> [IndexOwner("d1", None), IndexOwner("d1", "q1")]

    Args:
        question_id: The question.
        documents: Its documents.
        is_joined: Whether these were read as one, which then has an id of its own.
    """
    if is_joined:
        documents = [joined_id(documents)]
    owners: list[IndexOwner] = []
    for document in documents:
        owners += [IndexOwner(document, None), IndexOwner(document, question_id)]
    return owners


def _tflops_of_usage(usage: PhaseUsage, convention: str) -> float:
    """TFLOPs of a phase under the convention; 0 where its usage lists none."""
    flops = usage.get("flops") or {}
    return flops.get(convention, 0.0) / TERA


def count_requests(usage: Usage, *phases: str) -> int:
    """The number of requests to language models in a usage; requests to encoders do not count.

    Args:
        usage: Of a record or an index, by phase.
        phases: The phases that count; all of them where none is named.
    """
    usage_sum = sum_phases([usage], *phases)
    return int(usage_sum.get("requests", 0)) - int(usage_sum.get("encoder_requests", 0))


def request_counts(run: StoredRun) -> list[float]:
    """The number of requests to language models in search and answer of each answered question."""
    columns = run.columns
    requests = np.zeros(len(columns))
    for phase in ("search", "answer"):
        requests += columns.cost(phase, "requests") - columns.cost(phase, "encoder_requests")
    return list(requests[columns.answered])


def probe_notes(run: StoredRun) -> list[str]:
    """One sentence on what part of the search its probes took: "of the search, probes: 9.8 % of the
    FLOPs, 12.5 % of the tokens".

    [] for a method without probes, or an older run.
    """
    if "probes" not in run.cost_keys:
        return []
    search = run.columns.usage_sum(run.columns.answered).get("search", {})
    share_in_words = probe_share(search)
    if not share_in_words:
        return []
    return [PROBE_NOTE_START + share_in_words]


def probe_share(search: PhaseUsage, convention: str = DEFAULT_CONVENTION) -> str:
    """What part of a search its probes took: "9.8 % of the FLOPs, 12.5 % of the tokens".

    Args:
        search: The usage of the search.
        convention: How FLOPs are counted.

    Returns:
        The words; "" for a search without probes. FLOPs are left out where they are unknown.
    """
    probes = search.get("probes")
    if not probes:
        return ""
    parts = []
    flops = search["flops"][convention]
    if flops and not search.get("uncounted"):
        parts.append(f"{_percent(probes['flops'][convention], flops)} % of the FLOPs")
    tokens = search["tokens_in"] + search["tokens_out"]
    if tokens:
        parts.append(f"{_percent(probes['tokens'], tokens)} % of the tokens")
    return ", ".join(parts)


def _percent(part: float, whole: float) -> str:
    """A part of a whole in per cent with one decimal, (1, 8) -> "12.5"; "<0.1" for a part above 0
    that would be written as 0.0."""
    share = 100 * part / whole
    if 0 < share < 0.05:
        return "<0.1"
    return f"{share:.1f}"


def step_flops(recorded: Mapping[str, float] | float, convention: str) -> float | None:
    """FLOPs that a step of a search recorded, under a convention.

        {"full": 2e9, "causal": 1e9}, "causal"      -> 1e9
        2e9, "full"                                 -> 2e9, of an older run
        2e9, "causal"                               -> None, as an older run holds "full" alone

    Args:
        recorded: `flops`, `probe_flops` or `answer_flops` of a step: by convention, or a number.
        convention: How FLOPs are counted.
    """
    if isinstance(recorded, Mapping):
        return float(recorded.get(convention, 0.0))
    if convention == "full" or not recorded:
        return float(recorded)
    return None


def stop_flops(step: StoredStep, convention: str) -> float | None:
    """FLOPs of search and answer of a question if its search stops at this recorded step.

    None where an older run recorded them under "full" alone, and `convention` is another one.
    """
    search_flops = step_flops(step.get("flops") or 0.0, convention)
    answer_flops = step_flops(step.get("answer_flops") or 0.0, convention)
    if search_flops is None or answer_flops is None:
        return None
    return search_flops + answer_flops


def notes_on_steps_without_convention(
    records: Sequence[StoredRecord], convention: str
) -> list[str]:
    """One note if an old run stored a step's FLOPs under "full" alone and `convention` is another
    one; else []."""
    for record in records:
        for step in record.steps:
            if step_flops(step.get("flops") or 0.0, convention) is None:
                return [_FULL_CONVENTION_ONLY]
    return []


def question_flops(record: StoredRecord, convention: str) -> float | None:
    """FLOPs of search and answer of a record under a convention; None where some were not counted,
    as a model's shape is unknown."""
    usage_sum = sum_phases([record.usage], "search", "answer")
    if usage_sum.get("uncounted"):
        return None
    if "flops" not in usage_sum:
        return 0.0
    return float(usage_sum["flops"][convention])
