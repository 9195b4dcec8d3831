"""Run methods in step until the comparison is settled: documents in random order, a look after
each.

    outcome = duel(plans, Rules(alpha=0.05), Path("results"), command=[...],
    progress=ProgressLine())
    outcome.pairs[0].sentence        "bm25 is better than closed-book: +12.1 points [3.0, 20.8] ..."

    order ──► the next document's questions ──► every method still in the race ──► races of open pairs ──► stop?
      │                                             (runner.Job: an ordinary, resumable run folder)
      └─ from the seed and the questions alone, so a duel that goes on goes on in the same order

The verdict is a function of the order and the recorded scores: what is recorded already is not
asked again, and an answer beyond the stop changes nothing. A method leaves when all its pairs are
settled (pair_races.py).
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.cost.usage import Usage, sum_phases, tokens_of
from harness.engine import runner
from harness.engine.plan import PlannedRun
from harness.engine.progress import Counted, Progress, Silent
from harness.engine.runner import Job, RunResult
from harness.engine.scoring import scorer_applies
from harness.errors import UserError
from harness.parallel.signals import interrupt_on_signals
from harness.stats.question_clusters import question_labels
from harness.stats.rng import derived_seed
from harness.storage.run_files import read_summary
from harness.storage.summary_file import EarlyStop
from harness.types import Example
from harness_audit.pair_races import Pair, PairRaces, Rules


@dataclass(frozen=True)
class Entrant:
    """One method of a duel. result: its run; questions: how many it answered for the duel, `of` how
    many.

    tokens, seconds: sums over these answers and the indexes that were built for them.
    """

    name: str
    result: RunResult
    questions: int
    of: int
    tokens: float
    seconds: float

    @property
    def saved(self) -> tuple[int, float, float]:
        """Questions that were not asked, and what they would have cost at the same mean: tokens,
        seconds."""
        left = self.of - self.questions
        share = left / self.questions if self.questions else 0.0
        return left, self.tokens * share, self.seconds * share


@dataclass(frozen=True)
class DuelResult:
    """The verdicts, and each method's part. left_out: questions that the score does not judge."""

    pairs: list[Pair]
    entrants: list[Entrant]
    rules: Rules
    score: str
    left_out: int = 0

    def ranks(self, name: str) -> tuple[int, int]:
        """The best and the worst place, from 1, that the verdicts leave possible for the method
        `name`."""
        winners = [
            pair.better
            for pair in self.pairs
            if name in (pair.a, pair.b) and pair.better is not None
        ]
        wins = winners.count(name)
        return 1 + len(winners) - wins, len(self.entrants) - wins


class _RaceScores(Silent):
    """Score and cost of one method's records. display: the duel's line; values, costs: by question
    id."""

    def __init__(self, display: Progress, score: str) -> None:
        super().__init__()
        self.display, self.score = display, score
        self.part, self.note = display.part, display.note  # type: ignore[method-assign]
        self.values: dict[str, float] = {}
        self.costs: dict[str, tuple[float, float]] = {}  # tokens, seconds

    def seen(self, question: Counted) -> None:
        """Keep a question of an earlier start."""
        self._keep(question)
        self.display.seen(question)

    def done(self, question: Counted) -> None:
        """Keep a new question."""
        self._keep(question)
        self.display.done(question)

    def _keep(self, question: Counted) -> None:
        """Keep score (0 for a failed question) and cost of a question. Raises UserError for a score
        outside [0, 1]."""
        name = question.question_id
        value = 0.0
        if not question.failed:
            value = float(question.scores.get(self.score, 0.0))
        if not 0.0 <= value <= 1.0:
            raise UserError(f"{self.score} is {value:g} for question '{name}'; a duel needs 0 to 1")
        self.values[name] = value
        self.costs[name] = _tokens_and_seconds(question.usage)


def _tokens_and_seconds(usage: Usage) -> tuple[float, float]:
    """Tokens and seconds of a question or an index, over all phases."""
    spent = sum_phases([usage])
    return tokens_of(spent), spent.get("seconds", 0.0)


def question_clusters(plan: PlannedRun, score: str) -> tuple[list[list[Example]], int]:
    """The questions of a plan that `score` judges, by cluster in random order; and how many it does
    not judge.

    Each cluster's place comes from the seed and its label, so neither another method nor a larger
    limit reorders them.
    """
    examples = plan.dataset.examples[: plan.config.limit]
    judged = [e for e in examples if scorer_applies(score, e.gold)]
    ids, documents = [e.question.id for e in judged], [e.question.document_ids for e in judged]
    by_label: dict[str, list[Example]] = {}
    for label, example in zip(
        question_labels(plan.config.dataset.format, ids, documents), judged, strict=True
    ):
        by_label.setdefault(label, []).append(example)
    order = sorted(
        by_label, key=lambda label: (derived_seed(plan.config.seed, "duel", label), label)
    )
    return [by_label[label] for label in order], len(examples) - len(judged)


def check_plans(plans: Sequence[PlannedRun], rules: Rules) -> str:
    """Return the name of the score that decides the duel. Raises UserError for plans that cannot be
    in one."""
    first = plans[0].config
    if len({plan.config.dataset.name for plan in plans}) > 1:
        raise UserError("a duel is over one data set; name one with --dataset")
    folders = [plan.folder for plan in plans]
    for n, plan in enumerate(plans):
        if plan.folder in folders[:n]:
            raise UserError(
                f"{plan.method_name} is in the duel twice with the same settings; leave one out"
            )
    if first.failed == "skip":
        raise UserError(
            "a duel counts a failed question as 0, so that all methods have the same questions; "
            "leave out failed=skip"
        )
    score = rules.score or first.dataset.scorers[0]
    if score not in first.dataset.scorers:
        raise UserError(
            f"'{score}' is no scorer of this data set ({', '.join(first.dataset.scorers)}); add it "
            "with: "
            f"--set dataset.scorers={','.join([*first.dataset.scorers, score])}"
        )
    return score


def duel(
    plans: Sequence[PlannedRun],
    rules: Rules,
    out: Path,
    *,
    command: list[str],
    progress: Progress,
    parallel: int = 1,
    retry_failed: bool = False,
) -> DuelResult:
    """Ask all plans the same questions in turn until every pair is settled or no question is left;
    return the verdicts.

    All plans are of one data set, with its questions in the same order. Each leaves a run folder
    below `out`, marked as stopped early where questions are left. Raises UserError for plans that
    cannot be compared, Interrupted on a signal (the same command goes on), and what runner.run
    raises.
    """
    score = check_plans(plans, rules)
    clusters, left_out = question_clusters(plans[0], score)
    if not clusters:
        raise UserError(f"{score} judges none of the questions; choose another with --score")
    names = [plan.method_name for plan in plans]
    races = PairRaces(names, [len(each) for each in clusters], rules)
    progress.start(len(plans) * sum(map(len, clusters)), "")
    try:
        with interrupt_on_signals(), ExitStack() as stack:
            tallies = {name: _RaceScores(progress, score) for name in names}
            asking: dict[str, Any] = {
                "command": command,
                "retry_failed": retry_failed,
                "parallel": parallel,
            }
            jobs: dict[str, Job] = {}
            for name, plan in zip(names, plans, strict=True):
                jobs[name] = stack.enter_context(
                    runner.opened_job(plan, out, progress=tallies[name], **asking)
                )
            _race(races, clusters, jobs, tallies, parallel)
            entrants = [
                _finish_entrant(name, jobs[name], tallies[name], clusters, races, score)
                for name in names
            ]
    except KeyboardInterrupt as error:
        raise runner.Interrupted(Path(out), command) from error
    finally:
        progress.stop()
    return DuelResult(races.pairs, entrants, rules, score, left_out)


def _race(
    races: PairRaces,
    clusters: Sequence[list[Example]],
    jobs: Mapping[str, Job],
    tallies: Mapping[str, _RaceScores],
    parallel: int,
) -> None:
    """Ask every method with an open pair each cluster in turn and update `races`; jobs, tallies: by
    method name."""
    batch: list[list[Example]] = []  # as many clusters as give each place a question
    for number, cluster in enumerate(clusters, start=1):
        batch.append(cluster)
        if sum(map(len, batch)) < parallel and number < len(clusters):
            continue
        if not (active := races.active):
            return
        for name in active:
            jobs[name].ask([example for each in batch for example in each])
        for each in batch:
            ids = [example.question.id for example in each]
            races.add_cluster(
                {name: sum(tallies[name].values[q] for q in ids) for name in active}, len(ids)
            )
        batch = []


def _finish_entrant(
    name: str,
    job: Job,
    tally: _RaceScores,
    clusters: Sequence[list[Example]],
    races: PairRaces,
    score: str,
) -> Entrant:
    """Write a method's summary, with why it ended early; return its Entrant. clusters: all, in
    their order."""
    raced = [e.question.id for cluster in clusters[: races.entered[name]] for e in cluster]
    total = len(job.examples)
    early_stop = None
    if len(tally.values) < total:
        sentences = [pair.sentence for pair in races.pairs if name in (pair.a, pair.b)]
        before = read_summary(job.store.folder).stopped_early
        if before is not None:  # by another duel of this run
            sentences = [*before.verdicts, *sentences]
        early_stop = EarlyStop(
            by="duel",
            questions=len(tally.values),
            of=total,
            seed=job.plan.config.seed,
            alpha=races.rules.alpha,
            width=races.rules.width,
            target=races.rules.target,
            score=score,
            verdicts=list(dict.fromkeys(sentences)),
        )
    built = [line for line in job.store.index_lines() if line.status == "built"]
    costs = [*(tally.costs[q] for q in raced), *(_tokens_and_seconds(line.usage) for line in built)]
    tokens, seconds = (sum(cost[k] for cost in costs) for k in (0, 1))
    return Entrant(
        name, job.finished(early_stop), len(raced), sum(map(len, clusters)), tokens, seconds
    )
