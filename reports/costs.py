"""What a run, a question and a step of a search cost, by convention (harness.cost.flops).

phase_costs(run, "search", convention)     tokens, TFLOPs and seconds of each question answered, or index built
part_costs(run, "probes", ["search"])      those of a part of phases
question_tflops(run, convention)           a question's search and answer, and its share of the indexes it needed:
question_money(run)                        likewise in money, of requests to servers (harness/cost/usage.py)

    share of an index = what building it cost / questions of this run that were asked of its
    document

A question with a document of its own pays the whole index. One that was found in the cache costs
what building it did. The papers print search and answer alone; that is `with_index=False`.

step_flops(step["flops"], convention)      older runs kept the FLOPs of steps by "full" alone
"""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.cost.flops import CONVENTIONS, DEFAULT
from harness.cost.usage import add_usage, money, sum_phases
from harness.engine.made_documents import joined_id
from harness.errors import UnknownName
from harness.storage.run_folder import StoredRun

TERA = 1e12
PROBES = "of the search, probes: "


def check_convention(convention: str) -> None:
    """Raise UnknownName unless `convention` is a way to count FLOPs."""
    if convention not in CONVENTIONS:
        raise UnknownName("FLOPs convention", convention, CONVENTIONS)


@dataclass(frozen=True, slots=True)
class Costs:
    """What one phase cost, an entry for each question (or index).

    tflops is None where a model's shape is unknown; the others are empty where a run made
    elsewhere, or an older one, has none. seconds: of the calls themselves; queued: that they waited
    (harness/cost/flops.py).
    """

    tokens: Sequence[float]
    tflops: Sequence[float] | None
    seconds: Sequence[float] = ()
    tokens_in: Sequence[float] = ()
    tokens_out: Sequence[float] = ()
    queued: Sequence[float] = ()


def phase_costs(run: StoredRun, phase: str, convention: str = DEFAULT) -> Costs:
    """Costs of `phase` for each question answered ("search", "answer") or each document indexed
    ("index").

    Failed questions and indexes are left out: a half-spent cost says nothing about what an answer
    costs. Tokens are those that went through a model (read and written, without cached ones);
    TFLOPs are 1e12 FLOPs. Where an index belongs to a question, a document's cost is that of all
    its indexes. A run made elsewhere has costs of the whole question alone, which stand under
    "answer"; what it lacks is an empty list.
    """
    if phase != "answer" and "imported" in run.manifest:
        return Costs([], None, [])
    if phase == "index":
        built: dict[str, dict[str, Any]] = {}
        for line in run.documents:
            if not line.failed:
                add_usage(built.setdefault(line.document_id, {}), line.usage)
        usages = (usage.get(phase, {}) for usage in built.values())
    else:
        usages = (
            record["usage"].get(phase, {}) for record in run.records if record["error"] is None
        )
    columns = {key: array("d") for key in ("tokens_in", "tokens_out", "seconds", "queued")}
    tflops: array[float] | None = array("d")
    for usage in usages:  # once: a run may have a million questions
        for key in [key for key in columns if usage and key not in usage]:
            del columns[key]  # of a run made elsewhere
        for key, column in columns.items():
            column.append(usage.get(key, 0))
        tflops = None if tflops is None or usage.get("uncounted") else tflops
        if tflops is not None:
            tflops.append(_tflops(usage, convention))
    tokens = zip(*(columns.get(key, ()) for key in ("tokens_in", "tokens_out")), strict=False)
    return Costs(tokens=array("d", map(sum, tokens)), tflops=tflops, **columns)


def search_and_answer(search: Sequence[float], answer: Sequence[float]) -> Sequence[float]:
    """The cost of each question: search + answer; of a run made elsewhere all is under `answer`,
    and `search` is []."""
    return array("d", map(sum, zip(search, answer, strict=True))) if search and answer else answer


def is_latency(run: StoredRun, queued: Sequence[float]) -> bool:
    """Whether the seconds of a run's calls hold no time in a queue: `queued` is known, or questions
    ran in turn.

    Of a batch (model.batch), the time of a single request is not known.
    """
    if run.config["model"].get("batch"):
        return False
    starts = run.manifest.get("starts") or ()
    return bool(queued) or all((start.get("parallel") or 1) == 1 for start in starts)


def part_costs(
    run: StoredRun, part: str, phases: Sequence[str], convention: str = DEFAULT
) -> Costs:
    """What a part ("probes", "thinking") of `phases` cost for each answered question; empty where
    no usage has it."""
    usages = (r["usage"].get(phase, {}) for r in run.records for phase in phases)
    if part not in run.keys[1] or not any(part in usage for usage in usages):
        return Costs([], None, [])
    questions = [sum_phases([r["usage"]], *phases) for r in run.records if r["error"] is None]
    parts = [spent.get(part, {}) for spent in questions]
    counted = not any(spent.get("uncounted") for spent in questions)
    tflops = [_tflops(spent, convention) for spent in parts] if counted else None
    return Costs([float(spent.get("tokens", 0)) for spent in parts], tflops, [])


def question_tflops(
    run: StoredRun, convention: str = DEFAULT, *, with_index: bool = True
) -> dict[str, float]:
    """1e12 FLOPs by answered question, with its share of indexes where `with_index`.

    {} where a model's FLOPs are not known, or the run folder lacks indexes that its summary counts.
    """
    return _by_question(
        run,
        lambda usage: None if usage.get("uncounted") else _tflops(usage, convention),
        with_index,
    )


def question_money(run: StoredRun) -> dict[str, float]:
    """Money by answered question, with its share of indexes; {} where no server took any, or a
    price is unknown."""
    if not is_billed(run):
        return {}
    return _by_question(run, lambda usage: money(usage, run.config), with_index=True)


def is_billed(run: StoredRun) -> bool:
    """Whether a server took money for any question or index of the run, as far as is known."""
    return bool({"billed", "charged"} & set(run.keys[1])) or any(
        "billed" in phase for line in run.documents for phase in line.usage.values()
    )


def index_money(run: StoredRun) -> list[float]:
    """Money of each index; [] where no server took any, or a price is unknown."""
    if not is_billed(run):
        return []
    built = [line.usage for line in run.documents if not line.failed]
    spent = [money(usage.get("index", {}), run.config) for usage in built]
    return [value for value in spent if value is not None] if None not in spent else []


def run_money(run: StoredRun) -> float | None:
    """Money of the whole run: of failed questions, of indexes (what building them cost) and of its
    judges.

    None where nobody took any, or a price is unknown.
    """
    judge_entries = (run.manifest.get("judges") or {}).values()
    judges = [(entry.get("usage") or {}, entry.get("price")) for entry in judge_entries]
    if not is_billed(run) and not any("billed" in usage for usage, _ in judges):
        return None
    run_usage = sum_phases(run.usages())
    by_judge = [money(usage, {"model": {"price": price}}) for usage, price in judges]
    amounts = [money(run_usage, run.config), *by_judge]
    return sum(map(float, amounts)) if None not in amounts else None  # type: ignore[arg-type]


def _by_question(
    run: StoredRun, cost: Callable[[Mapping[str, Any]], float | None], with_index: bool
) -> dict[str, float]:
    """The cost of each answered question, by `cost` of a phase's usage, with its share of indexes;
    {}: not known."""
    costs: dict[str, float] = {}
    for record in run.records:
        if record["error"] is None:
            parts = [cost(record["usage"].get(phase, {})) for phase in ("search", "answer")]
            if None in parts:
                return {}
            costs[record["question_id"]] = sum(map(float, parts))  # type: ignore[arg-type]
    lines = [line for line in run.documents if with_index and not line.failed]
    built = {line.place: line.usage for line in lines}
    indexes = {key: cost(usage.get("index", {})) for key, usage in built.items()}
    if None in indexes.values():
        return {}
    n_documents = (run.summary.get("index") or {}).get("documents", 0)
    if with_index and len({document for document, _ in built}) < n_documents:
        return {}
    needed = (key for record in (run.whole or run).records for key in _index_keys(record))
    asked = Counter(key for key in needed if key in indexes)
    share = {key: (indexes[key] or 0.0) / n for key, n in asked.items()}
    for record in run.records:
        if record["question_id"] in costs:
            costs[record["question_id"]] += sum(share.get(key, 0.0) for key in _index_keys(record))
    return costs


def _index_keys(record: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """(document, question) of each index that a record may have needed; question: None for one that
    all share."""
    ids = record["document_ids"]
    documents = [joined_id(ids)] if (record.get("notes") or {}).get("joined") else ids
    return [
        (document, question) for document in documents for question in (None, record["question_id"])
    ]


def _tflops(usage: Mapping[str, Any], convention: str) -> float:
    return float((usage.get("flops") or {}).get(convention, 0.0)) / TERA


def requests_of(usage: Mapping[str, Any], *phases: str) -> int:
    """Requests to a language model in these phases of a record's or index's usage; those to
    encoders are none."""
    spent = sum_phases([usage], *phases)
    return int(spent.get("requests", 0)) - int(spent.get("encoder_requests", 0))


def request_counts(run: StoredRun) -> list[float]:
    """Requests of search and answer of each question answered."""
    answered = [record["usage"] for record in run.records if record["error"] is None]
    return [float(requests_of(usage, "search", "answer")) for usage in answered]


def probes(run: StoredRun) -> list[str]:
    """What part of the search its probes took, as a sentence; none for a method without probes, or
    an older run."""
    if "probes" not in run.keys[1]:
        return []
    spent = sum_phases((r["usage"] for r in run.records if r["error"] is None), "search")
    return [PROBES + share] if (share := probe_share(spent)) else []


def probe_share(search: Mapping[str, Any], convention: str = DEFAULT) -> str:
    """The probes of a search's usage: "9.8 % of the FLOPs, 12.5 % of the tokens"; "" where it has
    none."""
    probes = search.get("probes")
    if not probes:
        return ""
    tokens = search["tokens_in"] + search["tokens_out"]
    whole = {"FLOPs": search["flops"][convention], "tokens": tokens}
    part = {"FLOPs": probes["flops"][convention], "tokens": probes["tokens"]}
    if search.get("uncounted"):
        del whole["FLOPs"]
    shares = {name: 100 * part[name] / total for name, total in whole.items() if total}
    texts = {name: "<0.1" if 0 < share < 0.05 else f"{share:.1f}" for name, share in shares.items()}
    return ", ".join(f"{share} % of the {name}" for name, share in texts.items())


def step_flops(value: Mapping[str, float] | float, convention: str) -> float | None:
    """FLOPs of a stored step under `convention`; None for a plain number, which is "full", under
    another one.

    value: `flops`, `probe_flops` or `answer_flops` of a step, by convention; nothing in it is 0.
    """
    if isinstance(value, Mapping):
        return float(value.get(convention, 0.0))
    return float(value) if convention == "full" or not value else None


def stop_flops(step: Mapping[str, Any], convention: str) -> float | None:
    """FLOPs of search and answer of a run that stops at a recorded step; None as in
    `step_flops`."""
    searched = step_flops(step.get("flops") or 0.0, convention)
    answered = step_flops(step.get("answer_flops") or 0.0, convention)
    return None if searched is None or answered is None else searched + answered


def full_only_notes(records: Sequence[Mapping[str, Any]], convention: str) -> list[str]:
    """A note where steps have FLOPs under "full" alone and `convention` is another one; else
    nothing."""
    steps = (step for record in records for step in record["steps"])
    if all(step_flops(step.get("flops") or 0.0, convention) is not None for step in steps):
        return []
    return [
        (
            "this run kept the FLOPs of its steps under the convention full alone: --convention full "
            "shows them"
        )
    ]


def spent_flops(record: Mapping[str, Any], convention: str) -> float | None:
    """FLOPs of search and answer of a record; None where a model's shape is unknown."""
    spent = sum_phases([record["usage"]], "search", "answer")
    return (
        None if spent.get("uncounted") else float(spent.get("flops", {convention: 0.0})[convention])
    )
