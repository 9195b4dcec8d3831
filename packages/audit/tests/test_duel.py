"""Methods in step: the order, the verdict, what is saved, resuming, and what the run folders
say."""

from dataclasses import replace

import pytest
from harness_audit.duel import Asking, question_clusters
from harness_audit.duel import duel as run_duel
from harness_audit.pair_races import PairRaces, Rules

from harness.engine.progress import Silent
from harness.engine.rescore import rescore
from harness.engine.runner import Interrupted
from harness.errors import UserError
from harness.storage.run_folder import read_run
from harness.types import Answer
from reports.run_notes import run_notes
from tests.engine.fakes import SCORER, Plain, World, comparable, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")


class Right(Plain):
    """Answers rightly where the number of the question is not in `wrong`; notes what it is
    asked."""

    def __init__(self, wrong=(), stop_at=None):
        super().__init__(self.Config())
        self.wrong, self.stop_at = set(wrong), stop_at
        self.asked = []

    def answer(self, question, documents, indexes, tools):
        if self.stop_at is not None and len(self.asked) == self.stop_at:
            raise KeyboardInterrupt
        self.asked.append(question.id)
        right = super().answer(question, documents, indexes, tools)
        return Answer("nothing", right.shown) if int(question.id[1:]) in self.wrong else right


def tiny(questions=80, documents=40):
    return World(questions=questions, documents=documents).dataset()


def plan(name, method, dataset, **more):
    made = make_plan(dataset, method, **more)
    choice = made.config.method.model_copy(update={"name": name})
    config = made.config.model_copy(update={"method": choice})
    return replace(made, config=config, folder=f"tiny/{name}--fake--01234567")


def fight(out, methods, rules=None, dataset=None, **more):
    plans = [plan(name, method, dataset or tiny()) for name, method in methods.items()]
    asking = Asking(["harness", "duel"], **more)
    return run_duel(plans, rules or Rules(), out, asking=asking, progress=Silent())


def test_it_stops_when_one_method_is_better(tmp_path):
    good, bad = Right(), Right(range(80))
    outcome = fight(tmp_path, {"good": good, "bad": bad})
    (pair,) = outcome.pairs
    assert pair.settled_by == "level"
    assert pair.race.p <= 0.05
    assert pair.interval[0] > 0
    assert "good is better than bad: good minus bad is +100.0 points" in pair.sentence
    assert good.asked == bad.asked
    assert 0 < len(good.asked) < 40
    # whole documents, in the order of the seed
    order = [
        [e.question.id for e in cluster]
        for cluster in question_clusters(plan("x", good, tiny()), SCORER)[0]
    ]
    assert good.asked == [q for cluster in order[: pair.race.clusters] for q in cluster]
    saved = outcome.entrants[0].saved
    assert saved.questions == 80 - len(good.asked) == 80 - outcome.entrants[0].questions
    assert saved.tokens == pytest.approx(
        outcome.entrants[0].tokens / len(good.asked) * saved.questions
    )


def test_its_run_folders_say_that_they_were_stopped_and_a_run_completes_them(tmp_path):
    outcome = fight(tmp_path, {"good": Right(), "bad": Right(range(80))})
    folder = outcome.entrants[0].result.folder
    run = read_run(folder)
    early = run.summary.stopped_early
    assert (early.questions, early.of) == (len(run.records), 80)
    assert run.manifest.last_start.stopped_early == early
    assert run.summary.state == "finished"
    (note,) = [note for note in run_notes(run) if "stopped the run early" in note]
    assert f"after {len(run.records)} of 80 questions" in note
    assert "good is better than bad" in note
    assert rescore(folder).stopped_early == early
    fight(tmp_path, {"good": Right(), "worse": Right(range(70))})
    both = read_run(folder).summary.stopped_early.verdicts
    assert [sentence.partition(":")[0] for sentence in both] == [
        "good is better than bad",
        "good is better than worse",
    ]
    go(plan("good", Right(), tiny()), tmp_path)
    whole = read_run(folder)
    assert (len(whole.records), whole.summary.stopped_early is not None) == (80, False)
    assert not any("stopped the run early" in note for note in run_notes(whole))


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_duel_that_goes_on_gives_the_same_verdict(tmp_path, parallel):
    wrong = [n for n in range(80) if n % 5 < 3]
    whole = fight(tmp_path / "a", {"good": Right(), "bad": Right(wrong)})
    with pytest.raises(Interrupted):
        fight(tmp_path / "b", {"good": Right(), "bad": Right(wrong, stop_at=5)})
    good = Right()
    again = fight(tmp_path / "b", {"good": good, "bad": Right(wrong)}, parallel=parallel)
    assert [p.verdict() for p in again.pairs] == [p.verdict() for p in whole.pairs]
    assert 0 < len(good.asked) < whole.entrants[0].questions + parallel
    for one, other in zip(whole.entrants, again.entrants, strict=True):
        rows = {r.question_id: comparable(r) for r in read_run(other.result.folder).records}
        assert all(
            comparable(r) == rows[r.question_id] for r in read_run(one.result.folder).records
        )
    # what a whole run recorded is not asked again, and changes nothing
    done = Right()
    go(plan("good", Right(), tiny()), tmp_path / "b")
    over = fight(tmp_path / "b", {"good": done, "bad": Right(wrong)})
    assert [p.verdict() for p in over.pairs] == [p.verdict() for p in whole.pairs]
    assert done.asked == []


def test_a_method_leaves_when_all_its_pairs_are_settled(tmp_path):
    some = [n for n in range(80) if n % 9 == 0]
    methods = {"one": Right(), "two": Right(some), "bad": Right(range(80))}
    outcome = fight(tmp_path, methods)
    settled = [(p.a, p.b, p.settled_by) for p in outcome.pairs]
    assert settled == [("one", "two", "all"), ("one", "bad", "level"), ("two", "bad", "level")]
    assert len(methods["one"].asked) == len(methods["two"].asked) == 80
    assert len(methods["bad"].asked) < 60
    assert "one and two are not settled" in outcome.pairs[0].sentence
    assert [outcome.ranks(name) for name in methods] == [(1, 2), (1, 2), (3, 3)]


def test_a_pair_with_others_between_is_settled_by_them():
    match = PairRaces(["a", "b", "c"], [1] * 60, Rules())
    while match.active:
        match.add_cluster({"a": 1.0, "b": 0.5, "c": 0.0}, 1)
    assert [pair.better for pair in match.pairs] == ["a", "a", "b"]
    far = match.pairs[1]
    assert far.settled_by == "level"
    far.settled_by = "order"
    assert far.sentence.startswith("a is better than c: by other pairs; a minus c is +100.0 points")


def test_width_and_target(tmp_path):
    methods = {"one": Right([3]), "two": Right([8])}
    wide = fight(tmp_path / "w", dict(methods), Rules(width=0.5))
    assert wide.pairs[0].settled_by == "width"
    low, high = wide.pairs[0].interval
    assert high - low <= 0.5
    assert wide.entrants[0].questions < 80
    table = fight(tmp_path / "t", {"one": Right([3]), "two": Right([8, 9])}, Rules(target="table"))
    assert (
        table.pairs[0].settled_by == "level"
    )  # at the end the table is known: one right answer more
    assert table.pairs[0].race.mean == pytest.approx(1 / 80)
    assert (
        fight(tmp_path / "t", {"one": Right([3]), "two": Right([8, 9])}).pairs[0].settled_by
        == "all"
    )


def test_failed_questions_count_0(tmp_path):
    dataset = World(questions=6, documents=6, words=("a bug",)).dataset()
    outcome = fight(tmp_path, {"one": Right(), "two": Right()}, dataset=dataset)
    assert [e.result.failed for e in outcome.entrants] == [1, 1]
    assert outcome.pairs[0].race.mean == 0.0


def test_the_order_depends_on_the_seed_alone():
    def order(**more):
        clusters, _ = question_clusters(plan("x", Right(), tiny(), **more), SCORER)
        return [cluster[0].question.id for cluster in clusters]

    assert order() != order(seed=1)
    assert sorted(order()) == sorted(order(seed=1))
    first = order(limit=20)
    assert first == [q for q in order() if q in first]


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ({"alpha": 1.5}, "--alpha 1.5: should be between 0 and 1"),
        ({"width": 0.0}, "--width 0: should be points"),
        ({"target": "world"}, "--target world: should be population or table"),
        ({"score": "nothing"}, "'nothing' is no scorer of this data set"),
    ],
)
def test_rules_that_make_no_sense(tmp_path, rules, sentence):
    with pytest.raises(UserError, match=sentence.replace("(", r"\(")):
        fight(tmp_path, {"one": Right(), "two": Right()}, Rules(**rules))


def test_what_is_no_duel(tmp_path):
    skip = [plan(name, Right(), tiny(), failed="skip") for name in ("one", "two")]
    for plans, message in (
        ([plan("one", Right(), tiny())] * 2, "one is in the duel twice"),
        (skip, "leave out failed=sk"),
    ):
        with pytest.raises(UserError, match=message):
            run_duel(plans, Rules(), tmp_path, asking=Asking([]), progress=Silent())
