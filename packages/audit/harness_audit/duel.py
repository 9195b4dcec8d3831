"""Run methods in step until the comparison is settled: documents in random order, a look after
each.

    asking = Asking([...])
    outcome = duel(plans, Rules(alpha=0.05), Path("results"), asking=asking,
    progress=ProgressLine()) outcome.pairs[0].sentence        "bm25 is better than closed-book:
    +12.1 points [3.0, 20.8] ..."

    order ──► the next document's questions ──► every method still in the race ──► races of open pairs ──► stop?
      │                                             (runner.Job: an ordinary, resumable run folder)
      └─ from the seed and the questions alone, so a duel that goes on goes on in the same order

The verdict is a function of the order and the recorded scores: what is recorded already is not
asked again, and an answer beyond the stop changes nothing. A method leaves when all its pairs are
settled (pair_races.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from harness.cost.usage import Usage, sum_phases, tokens_of
from harness.engine import runner
from harness.engine.plan import PlannedRun
from harness.engine.progress import CountedQuestion, Progress, Silent
from harness.engine.runner import AskOptions, Job, RunResult
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
class Saved:
    """What an early stop spared a method.

    Args:
        questions: How many questions it was not asked.
        tokens: The tokens that they would have cost, at the mean of those that were asked.
        seconds: The seconds, likewise.
    """

    questions: int
    tokens: float
    seconds: float


@dataclass(frozen=True)
class Entrant:
    """One method of a duel.

    Args:
        name: The method's name.
        result: Its run.
        questions: How many questions it answered for the duel.
        n_questions_of_duel: How many questions the duel has.
        tokens: What these answers cost, with the indexes that were built for them.
        seconds: The seconds that they took, likewise.
    """

    name: str
    result: RunResult
    questions: int
    n_questions_of_duel: int
    tokens: float
    seconds: float

    @property
    def saved(self) -> Saved:
        """What an early stop saved: the questions left, at the mean cost of those asked; no cost
        where none was asked."""
        left = self.n_questions_of_duel - self.questions
        if self.questions == 0:
            return Saved(left, 0.0, 0.0)
        share = left / self.questions
        return Saved(left, self.tokens * share, self.seconds * share)


@dataclass(frozen=True)
class DuelResult:
    """The verdicts, and each method's part.

    Args:
        pairs: All pairs of methods.
        entrants: The methods.
        rules: When a pair is settled.
        score: The score that decided.
        left_out: Questions that it does not judge.
    """

    pairs: list[Pair]
    entrants: list[Entrant]
    rules: Rules
    score: str
    left_out: int = 0

    def ranks(self, name: str) -> tuple[int, int]:
        """The (best, worst) rank, from 1, that the verdicts leave possible for a method: (1, 3) for
        one of three methods without a verdict.

        Args:
            name: The method's name.
        """
        n_wins = 0
        n_losses = 0
        for pair in self.pairs:
            if name not in (pair.a, pair.b) or pair.better is None:
                continue
            if pair.better == name:
                n_wins += 1
            else:
                n_losses += 1
        return 1 + n_losses, len(self.entrants) - n_wins


@dataclass(frozen=True)
class _Cost:
    """What a question or an index took.

    Args:
        tokens: Its tokens, over all phases.
        seconds: Its seconds, likewise.
    """

    tokens: float
    seconds: float


class _RaceScores(Silent):
    """Collects score and cost of the questions of one method, and passes its progress on to the
    duel's line.

    The method's run reports each record to it once: a record of an earlier start by
    `count_stored`, one that this start wrote by `count_recorded`.

    Attributes:
        values: Question id -> score.
        costs: Question id -> what it took.
    """

    def __init__(self, display: Progress, score: str) -> None:
        """Begin without a question.

        Args:
            display: The duel's line of progress.
            score: The name of the score to collect.
        """
        super().__init__()
        self.display = display
        self.score = score
        # Steps and notes of the run go to the duel's line as they are.
        self.show_step = display.show_step  # type: ignore[method-assign]
        self.note = display.note  # type: ignore[method-assign]
        self.values: dict[str, float] = {}
        self.costs: dict[str, _Cost] = {}

    def count_stored(self, question: CountedQuestion) -> None:
        """Collect a question that an earlier start answered, and show it."""
        self._collect(question)
        self.display.count_stored(question)

    def count_recorded(self, question: CountedQuestion) -> None:
        """Collect a question that this start answered, and show it."""
        self._collect(question)
        self.display.count_recorded(question)

    def _collect(self, question: CountedQuestion) -> None:
        """Store score (0 for a failed question) and cost of a question. Raises UserError for a
        score outside [0, 1]."""
        question_id = question.question_id
        score = 0.0
        if not question.failed:
            score = float(question.scores.get(self.score, 0.0))
        if not 0.0 <= score <= 1.0:
            raise UserError(
                f"{self.score} is {score:g} for question '{question_id}'; a duel needs 0 to 1"
            )
        self.values[question_id] = score
        self.costs[question_id] = _cost_of_usage(question.usage)


def _cost_of_usage(usage: Usage) -> _Cost:
    """The tokens and seconds of a question or an index, added up over all its phases."""
    phase_sums = sum_phases([usage])
    return _Cost(tokens_of(phase_sums), phase_sums.get("seconds", 0.0))


def question_clusters(plan: PlannedRun, score: str) -> tuple[list[list[Example]], int]:
    """The questions of a duel, clustered by document, in the order in which they are asked.

    Each cluster's place in the order comes from the seed and its label, so neither another method
    nor a larger limit reorders the clusters.

    Args:
        plan: The plan of any of the methods.
        score: The name of the score that decides.

    Returns:
        (clusters, each a list of questions that `score` judges; how many questions it does not
        judge).
    """
    examples = plan.dataset.examples[: plan.config.limit]
    judged_examples = [e for e in examples if scorer_applies(score, e.gold)]
    question_ids = [e.question.id for e in judged_examples]
    document_ids_of_questions = [e.question.document_ids for e in judged_examples]
    label_of_each = question_labels(
        plan.config.dataset.format, question_ids, document_ids_of_questions
    )
    by_label: dict[str, list[Example]] = {}
    for label, example in zip(label_of_each, judged_examples, strict=True):
        by_label.setdefault(label, []).append(example)
    seed = plan.config.seed
    labels_in_order = sorted(by_label, key=lambda label: (derived_seed(seed, "duel", label), label))
    clusters = [by_label[label] for label in labels_in_order]
    return clusters, len(examples) - len(judged_examples)


def check_plans(plans: Sequence[PlannedRun], rules: Rules) -> str:
    """Check that the plans can be in one duel, and return the name of the score that decides it.

    Args:
        plans: A plan for each method.
        rules: The rules, which may name the score; by default it is the data set's first.

    Raises:
        UserError: They are of several data sets, two are the same run, failed questions do not
            count, or the data set does not have the score.
    """
    first_config = plans[0].config
    if len({plan.config.dataset.name for plan in plans}) > 1:
        raise UserError("a duel is over one data set; name one with --dataset")
    folders: set[str] = set()
    for plan in plans:
        if plan.folder in folders:
            raise UserError(
                f"{plan.method_name} is in the duel twice with the same settings; leave one out"
            )
        folders.add(plan.folder)
    if first_config.failed == "skip":
        raise UserError(
            "a duel counts a failed question as 0, so that all methods have the same questions; "
            "leave out failed=skip"
        )
    score = rules.score or first_config.dataset.scorers[0]
    if score not in first_config.dataset.scorers:
        dataset_scorers = first_config.dataset.scorers
        raise UserError(
            f"'{score}' is no scorer of this data set ({', '.join(dataset_scorers)}); add it with: "
            f"--set dataset.scorers={','.join([*dataset_scorers, score])}"
        )
    return score


@dataclass(frozen=True)
class Asking:
    """How the questions of a duel are asked.

    Args:
        command: What resumes the duel.
        parallel: Questions of a method to ask at a time.
        retry_failed: Whether failed questions of an earlier start are asked again.
    """

    command: list[str]
    parallel: int = 1
    retry_failed: bool = False


def duel(
    plans: Sequence[PlannedRun], rules: Rules, out: Path, *, asking: Asking, progress: Progress
) -> DuelResult:
    """Ask all plans the same questions in turn until every pair is settled or no question is left.

    All plans are of one data set, with its questions in the same order. Each leaves a run folder
    below `out`, marked as stopped early where questions are left.

    Args:
        plans: A plan for each method.
        rules: When a pair is settled.
        out: Folder of results.
        asking: How the questions are asked.
        progress: The duel's line.

    Returns:
        The verdict on each pair, and what each method answered and saved.

    Raises:
        UserError: The plans cannot be compared.
        Interrupted: On a signal; the same command resumes.
        Exception: What runner.run raises.
    """
    score = check_plans(plans, rules)
    clusters, left_out = question_clusters(plans[0], score)
    if not clusters:
        raise UserError(f"{score} judges none of the questions; choose another with --score")
    sizes = [len(cluster) for cluster in clusters]
    race = _Race(clusters, PairRaces(_method_names(plans), sizes, rules), score)
    progress.start(len(plans) * race.questions, "")
    try:
        with interrupt_on_signals(), ExitStack() as stack:
            for plan in plans:
                race.open_run(plan, out, asking, progress, stack)
            race.ask_all(asking.parallel)
            entrants = list(map(race.finish, race.jobs))
    except KeyboardInterrupt as error:
        raise runner.Interrupted(Path(out), asking.command) from error
    finally:
        progress.stop()
    return DuelResult(race.pairs.pairs, entrants, rules, score, left_out)


def _method_names(plans: Sequence[PlannedRun]) -> list[str]:
    """The name of each plan's method, in order."""
    return [plan.method_name for plan in plans]


class _Race:
    """The methods of a duel while they are asked: their runs, scores, and the tests of all
    pairs."""

    def __init__(self, clusters: Sequence[list[Example]], pairs: PairRaces, score: str) -> None:
        """Begin without a method; `open_run` adds them.

        Args:
            clusters: The questions by cluster, in the order in which they are asked.
            pairs: The tests of all pairs of methods.
            score: The name of the score that decides.
        """
        self.clusters = clusters
        self.pairs = pairs
        self.score = score
        self.jobs: dict[str, Job] = {}
        self.scores: dict[str, _RaceScores] = {}

    @property
    def questions(self) -> int:
        """How many questions a method is asked if no pair of it is settled before the last."""
        return sum(map(len, self.clusters))

    def open_run(
        self, plan: PlannedRun, out: Path, asking: Asking, progress: Progress, stack: ExitStack
    ) -> None:
        """Open the run of a method, and from now on collect the scores of its records.

        Args:
            plan: The method's plan.
            out: Folder of results.
            asking: How the questions are asked.
            progress: The duel's line.
            stack: Closes the run at its end.
        """
        name = plan.method_name
        self.scores[name] = _RaceScores(progress, self.score)
        job = runner.opened_job(
            plan,
            out,
            progress=self.scores[name],
            command=asking.command,
            options=AskOptions(retry_failed=asking.retry_failed, parallel=asking.parallel),
        )
        self.jobs[name] = stack.enter_context(job)

    def ask_all(self, parallel: int) -> None:
        """Ask the methods one batch of clusters after the other, until no pair is open or no
        cluster is left.

        Args:
            parallel: How many questions of a method are asked at a time; a batch has as many
                clusters as are needed for that many questions.
        """
        batch: list[list[Example]] = []
        for number, cluster in enumerate(self.clusters, start=1):
            batch.append(cluster)
            is_last = number == len(self.clusters)
            if sum(map(len, batch)) < parallel and not is_last:
                continue
            if not self.pairs.active:
                return
            self._ask_batch(batch)
            batch = []

    def _ask_batch(self, batch: Sequence[list[Example]]) -> None:
        """Ask each method with an open pair the questions of some clusters, then update the pairs'
        tests with each method's sum of scores, one cluster after the other. (A run that was asked
        has put its scores into `self.scores`.)"""
        active_methods = self.pairs.active
        for name in active_methods:
            self.jobs[name].ask(list(chain.from_iterable(batch)))
        for cluster in batch:
            score_sums: dict[str, float] = {}
            for name in active_methods:
                score_by_question = self.scores[name].values
                score_sums[name] = sum(
                    score_by_question[example.question.id] for example in cluster
                )
            self.pairs.add_cluster(score_sums, len(cluster))

    def finish(self, name: str) -> Entrant:
        """Write the summary of a method's run, and return what the method answered and spent.

        Counted are the questions up to the cluster that settled the method's last pair, and all
        indexes that were built.
        """
        job = self.jobs[name]
        cost_by_question = self.scores[name].costs
        tokens = 0.0
        seconds = 0.0
        clusters_used = self.clusters[: self.pairs.clusters_used[name]]
        answered_examples = list(chain.from_iterable(clusters_used))
        costs = [cost_by_question[example.question.id] for example in answered_examples]
        built_lines = [line for line in job.store.index_lines() if line.status == "built"]
        costs += [_cost_of_usage(line.usage) for line in built_lines]
        for cost in costs:
            tokens += cost.tokens
            seconds += cost.seconds
        result = job.finished(self._early_stop(name))
        return Entrant(
            name,
            result,
            questions=len(answered_examples),
            n_questions_of_duel=self.questions,
            tokens=tokens,
            seconds=seconds,
        )

    def _early_stop(self, name: str) -> EarlyStop | None:
        """What the run's summary says of its early stop, with the verdicts on the method's pairs,
        also those of an earlier duel; None where the method was asked every question."""
        job = self.jobs[name]
        n_answered = len(self.scores[name].values)
        n_questions = len(job.examples)
        if n_answered >= n_questions:
            return None
        verdict_sentences: dict[str, None] = {}  # each once, in order
        earlier_stop = read_summary(job.store.folder).stopped_early
        if earlier_stop is not None:  # by another duel of this run
            verdict_sentences.update(dict.fromkeys(earlier_stop.verdicts))
        for pair in self.pairs.pairs:
            if name in (pair.a, pair.b):
                verdict_sentences[pair.sentence] = None
        rules = self.pairs.rules
        return EarlyStop(
            by="duel",
            questions=n_answered,
            of=n_questions,
            seed=job.plan.config.seed,
            alpha=rules.alpha,
            width=rules.width,
            target=rules.target,
            score=self.score,
            verdicts=list(verdict_sentences),
        )
