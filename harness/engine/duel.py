"""Run methods in step until the comparison is settled: documents in random order, a look after each.

    outcome = duel(plans, Rules(alpha=0.05), Path("results"), command=[...], progress=Standings())
    outcome.pairs[0].sentence        "bm25 is better than closed-book: +12.1 points [3.0, 20.8] ..."

    order ──► the next document's questions ──► every method still in the race ──► races of open pairs ──► stop?
      │                                             (runner.Job: an ordinary, resumable run folder)
      └─ from the seed and the questions alone, so a duel that goes on goes on in the same order

The verdict is a function of the order and the recorded scores: what is recorded already is not asked again, and an
answer beyond the stop changes nothing. A method leaves when all its pairs are settled. The statistics:
harness/stats/sequential.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from harness.engine import runner
from harness.engine.progress import Progress
from harness.engine.scoring import applies
from harness.errors import UserError
from harness.parallel.signals import interrupt_on_signals
from harness.stats.clusters import question_labels
from harness.stats.rng import derived_seed
from harness.stats.sequential import PairedRace, settled
from harness.storage.run_folder import SUMMARY, read_json

if TYPE_CHECKING:
    from harness.engine.plan import Plan
    from harness.engine.runner import Job, RunResult
    from harness.types import Example

Target = Literal["population", "table"]
TARGETS: tuple[Target, ...] = ("population", "table")


@dataclass(frozen=True)
class Rules:
    """When a pair is settled, about what, and by which score.

    alpha: the largest probability of any wrong verdict, over all pairs and moments; width: also settle a pair whose
    interval is at most this wide (a difference of scores, 0.05 for 5 points); target: "population" for documents like
    these, "table" for exactly these questions; score: by default the data set's first scorer. Raises UserError.
    """

    alpha: float = 0.05
    width: float | None = None
    target: Target = "population"
    score: str | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise UserError(f"--alpha {self.alpha:g}: should be between 0 and 1, for example 0.05")
        if self.width is not None and not 0.0 < self.width < 2.0:
            raise UserError(f"--width {100 * self.width:g}: should be points of the score between 0 and 200")
        if self.target not in TARGETS:
            raise UserError(f"--target {self.target}: should be {' or '.join(TARGETS)}")


@dataclass
class Pair:
    """Two methods and their race. settled_by: None while it is open; "all": by no rule, every question is used."""

    a: str
    b: str
    race: PairedRace
    settled_by: Literal["level", "width", "all"] | None = None
    interval: tuple[float, float] = (-1.0, 1.0)

    @property
    def sentence(self) -> str:
        """The verdict in words; an open pair's is what is known so far."""
        mean = self.race.mean or 0.0
        low, high = self.interval
        told = f"{100 * mean:+.1f} points [{100 * low:.1f}, {100 * high:.1f}], n = {self.race.n}"
        if self.settled_by == "level":
            first, second = (self.a, self.b) if self.race.positive else (self.b, self.a)
            return f"{first} is better than {second}: {self.a} minus {self.b} is {told}, p = {self.race.p:.2g}"
        what = f"{self.a} minus {self.b} is {told}"
        if self.settled_by == "width":
            return f"{what}, the width that was asked for"
        return f"{self.a} and {self.b} are not settled: {what}, p = {self.race.p:.2g}"

    def values(self) -> dict[str, Any]:
        """The verdict as JSON values; differences are of scores in [0, 1]."""
        low, high = self.interval
        return {
            "a": self.a,
            "b": self.b,
            "settled_by": self.settled_by,
            "difference": self.race.mean,
            "low": low,
            "high": high,
            "p": self.race.p,
            "questions": self.race.n,
            "clusters": self.race.clusters,
        }


@dataclass(frozen=True)
class Entrant:
    """One method of a duel: its run, the questions that it answered for the duel, and what they cost.

    tokens and seconds are those of the answers in the race, with the indexes that were built for them.
    """

    name: str
    result: RunResult
    questions: int
    of: int
    tokens: float
    seconds: float

    @property
    def saved(self) -> tuple[int, float, float]:
        """Questions that were not asked, and what they would have cost at the same mean: tokens, seconds."""
        left = self.of - self.questions
        each = left / self.questions if self.questions else 0.0
        return left, self.tokens * each, self.seconds * each


@dataclass(frozen=True)
class Outcome:
    """The verdicts, and each method's part. left_out: questions that the score does not judge."""

    pairs: list[Pair]
    entrants: list[Entrant]
    rules: Rules
    score: str
    left_out: int = 0


class Standings(Progress):
    """One line for all methods, with the pair that is nearest to its verdict."""

    standing = ""

    def line(self) -> str:
        """The line of harness.engine.progress, and the standing."""
        return " · ".join(filter(None, [super().line(), self.standing]))

    def _left(self) -> str:
        return f"at most {left}" if (left := super()._left()) else ""


class _Tally(Progress):
    """Notes the value and the costs of each record of one method, and passes it on to the line of the duel."""

    def __init__(self, shown: Progress, score: str) -> None:
        super().__init__()
        self.shown, self.score = shown, score
        self.values: dict[str, float] = {}
        self.costs: dict[str, tuple[float, float]] = {}

    def start(self, total: int, headline: str) -> None:
        """The duel has one line for all methods, which is started once."""

    def stop(self) -> None:
        """As `start`."""

    def seen(self, row: dict[str, Any]) -> None:
        """A record that is on disk already."""
        self._note(row)
        self.shown.seen(row)

    def done(self, row: dict[str, Any]) -> None:
        """A new record."""
        self._note(row)
        self.shown.done(row)

    def part(self, done: int, total: int, what: str) -> None:
        """As of the line."""
        self.shown.part(done, total, what)

    def note(self, text: str) -> None:
        """As of the line."""
        self.shown.note(text)

    def _note(self, row: dict[str, Any]) -> None:
        value = 0.0 if row["error"] is not None else float(row["scores"].get(self.score, 0.0))
        if not 0.0 <= value <= 1.0:
            raise UserError(f"{self.score} is {value:g} for question '{row['question_id']}'; a duel needs 0 to 1")
        self.values[row["question_id"]] = value
        usage = row["usage"].values()
        self.costs[row["question_id"]] = (
            sum(float(u["tokens_in"] + u["tokens_out"]) for u in usage),
            sum(float(u.get("seconds", 0.0)) for u in usage),
        )


def clusters_of(plan: Plan, score: str) -> tuple[list[list[Example]], int]:
    """The questions of a plan that `score` judges, by cluster in random order; and how many it does not judge.

    Each cluster's place comes from the seed and its label, so neither another method nor a larger limit reorders them.
    """
    examples = plan.dataset.examples[: plan.config.limit]
    judged = [e for e in examples if applies(score, e.gold)]
    ids, documents = [e.question.id for e in judged], [e.question.document_ids for e in judged]
    by_label: dict[str, list[Example]] = {}
    for label, example in zip(question_labels(plan.config.dataset.format, ids, documents), judged, strict=True):
        by_label.setdefault(label, []).append(example)
    order = sorted(by_label, key=lambda label: (derived_seed(plan.config.seed, "duel", label), label))
    return [by_label[label] for label in order], len(examples) - len(judged)


def check_count(rows: int) -> None:
    """Raise UserError for fewer than two rows."""
    if rows < 2:
        raise UserError("a duel needs two methods or more: harness duel pecan bm25 --dataset musique")


def check(plans: Sequence[Plan], rules: Rules) -> str:
    """The name of the score. Raises UserError for plans that cannot be in one duel."""
    check_count(len(plans))
    first = plans[0].config
    if len({plan.config.dataset.name for plan in plans}) > 1:
        raise UserError("a duel is over one data set; name one with --dataset")
    folders = [plan.folder for plan in plans]
    for n, plan in enumerate(plans):
        if plan.folder in folders[:n]:
            raise UserError(f"{plan.method_name} is in the duel twice with the same settings; leave one out")
    if first.failed == "skip":
        raise UserError(
            "a duel counts a failed question as 0, so that all methods have the same questions; leave out failed=skip"
        )
    score = rules.score or first.dataset.scorers[0]
    if score not in first.dataset.scorers:
        raise UserError(
            f"'{score}' is no scorer of this data set ({', '.join(first.dataset.scorers)}); add it with: "
            f"--set dataset.scorers={','.join([*first.dataset.scorers, score])}"
        )
    return score


def duel(
    plans: Sequence[Plan],
    rules: Rules,
    out: Path,
    *,
    command: list[str],
    progress: Standings,
    parallel: int = 1,
    retry_failed: bool = False,
) -> Outcome:
    """Run the plans in step until every pair is settled or the questions are used up, and return the verdicts.

    All plans are of one data set, with its questions in the same order. Each leaves a run folder below `out`, marked as
    stopped early where questions are left. Raises UserError for plans that cannot be compared, Interrupted on a signal
    (the same command goes on), and what runner.run raises.
    """
    score = check(plans, rules)
    clusters, left_out = clusters_of(plans[0], score)
    if not clusters:
        raise UserError(f"{score} judges none of the questions; choose another with --score")
    names = [plan.method_name for plan in plans]
    match = _Match(names, [len(each) for each in clusters], rules)
    progress.start(len(plans) * sum(map(len, clusters)), "")
    try:
        with interrupt_on_signals(), ExitStack() as stack:
            tallies = {name: _Tally(progress, score) for name in names}
            jobs: dict[str, Job] = {}
            for name, plan in zip(names, plans, strict=True):
                jobs[name] = stack.enter_context(
                    runner.opened(
                        plan,
                        out,
                        command=command,
                        progress=tallies[name],
                        retry_failed=retry_failed,
                        parallel=parallel,
                    )
                )
            _race(match, clusters, jobs, tallies, parallel, progress)
            entrants = [_ended(name, jobs[name], tallies[name], clusters, match, score) for name in names]
    except KeyboardInterrupt as error:
        raise runner.Interrupted(Path(out), command) from error
    return Outcome(match.pairs, entrants, rules, score, left_out)


def _race(
    match: _Match,
    clusters: Sequence[list[Example]],
    jobs: Mapping[str, Job],
    tallies: Mapping[str, _Tally],
    parallel: int,
    progress: Standings,
) -> None:
    """Ask the questions of each cluster of every method that still has an open pair, and look after each cluster."""
    for batch in _batches(clusters, parallel):
        active = match.active
        if not active:
            return
        for name in active:
            jobs[name].ask([example for cluster in batch for example in cluster])
        for cluster in batch:
            ids = [example.question.id for example in cluster]
            match.look({name: sum(tallies[name].values[q] for q in ids) for name in active}, len(ids))
        progress.standing = match.standing


def _batches(clusters: Sequence[list[Example]], parallel: int) -> Iterator[list[list[Example]]]:
    """The clusters in order, as many at a time as give each place a question."""
    batch: list[list[Example]] = []
    for cluster in clusters:
        batch.append(cluster)
        if sum(map(len, batch)) >= parallel:
            yield batch
            batch = []
    if batch:
        yield batch


@dataclass
class _Match:
    """All pairs of a duel. entered: method -> clusters that it was in the race for."""

    names: list[str]
    sizes: list[int]
    rules: Rules
    pairs: list[Pair] = field(init=False)
    entered: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        finite = self.rules.target == "table"
        self.pairs = [
            Pair(a, b, PairedRace(self.sizes, finite=finite)) for a, b in itertools.combinations(self.names, 2)
        ]
        self.entered = dict.fromkeys(self.names, 0)

    @property
    def active(self) -> list[str]:
        """The methods with a pair that is not settled, in the order of the command."""
        racing = {name for pair in self.pairs if pair.settled_by is None for name in (pair.a, pair.b)}
        return [name for name in self.names if name in racing]

    def look(self, sums: Mapping[str, float], size: int) -> None:
        """The sum of each active method's scores over the `size` questions of the next cluster."""
        active = self.active  # a method may have left within this batch
        for name in active:
            self.entered[name] += 1
        level = self.rules.alpha / len(self.pairs)
        fresh = [pair for pair in self.pairs if pair.settled_by is None]
        for pair in fresh:
            difference = sums[pair.a] - sums[pair.b]
            pair.race.add(min(max(difference, -size), size))  # sums of floats may pass the bound by a rounding error
        wins = settled([pair.race.p for pair in self.pairs], self.rules.alpha)
        for pair, won in zip(self.pairs, wins, strict=True):
            if pair.settled_by is not None:
                continue
            pair.interval = pair.race.interval(level)
            low, high = pair.interval
            if won:
                pair.settled_by = "level"
            elif self.rules.width is not None and high - low <= self.rules.width + 1e-9:
                pair.settled_by = "width"
            elif pair.race.complete:
                pair.settled_by = "all"

    @property
    def standing(self) -> str:
        """The open pair with the smallest p, in words."""
        still = [pair for pair in self.pairs if pair.settled_by is None] or self.pairs
        pair = min(still, key=lambda one: one.race.p)
        low, high = pair.interval
        return f"{pair.a} - {pair.b} {100 * (pair.race.mean or 0):+.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def _ended(name: str, job: Job, tally: _Tally, clusters: Sequence[list[Example]], match: _Match, score: str) -> Entrant:
    """Close a method's run, with a mark where the duel left questions out."""
    raced = [e.question.id for cluster in clusters[: match.entered[name]] for e in cluster]
    of = len(job.examples)
    mark = None
    if len(tally.values) < of:
        rules, own = match.rules, [pair.sentence for pair in match.pairs if name in (pair.a, pair.b)]
        before = read_json(job.store.folder / SUMMARY).get("stopped_early") or {}  # by another duel of this run
        mark = {
            "stopped_early": {
                "by": "duel",
                "questions": len(tally.values),
                "of": of,
                "seed": job.plan.config.seed,
                "score": score,
                "alpha": rules.alpha,
                "width": rules.width,
                "target": rules.target,
                "verdicts": list(dict.fromkeys([*before.get("verdicts", ()), *own])),
            }
        }
    tokens, seconds = (sum(tally.costs[q][k] for q in raced) for k in (0, 1))
    indexes = [row["usage"].values() for row in job.store.documents() if row["status"] == "built"]
    tokens += sum(float(u["tokens_in"] + u["tokens_out"]) for usage in indexes for u in usage)
    seconds += sum(float(u.get("seconds", 0.0)) for usage in indexes for u in usage)
    return Entrant(name, job.finished(mark), len(raced), sum(map(len, clusters)), tokens, seconds)
