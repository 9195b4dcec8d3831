"""Judged run folders: scores beside the scorers', what survives scoring again, resuming, failing and other judges."""

import pytest

from harness.engine.judge_run import judge_run
from harness.engine.progress import Silent
from harness.engine.rescore import rescore
from harness.errors import UserError
from harness.llm.scripted import Rule
from harness.storage.run_folder import read_run
from reports.facts import scorer_version
from reports.judges import judge_agreements
from reports.tables import frame
from tests.engine.fakes import SCORER, Plain, World, go, make_plan
from tests.engine.test_model_judge import asked, make_judge

pytestmark = pytest.mark.usefixtures("fake_model")

RIGHT, WRONG = Rule(when="judge: w0\n", reply="Yes."), Rule(reply="no")


def plain(*words, questions=4):
    """Questions whose answers are w0, w1, w0, w1, ..., all right by the scorer."""
    return make_plan(World(questions=questions, words=words).dataset(), Plain(Plain.Config()))


def examples(plan):
    return {example.question.id: example for example in plan.dataset.examples}


def judged(folder, plan, judge, parallel=1):
    return judge_run(folder, examples(plan), judge, parallel=parallel, progress=Silent())


def scores(folder, name):
    return [record["scores"].get(name) for record in read_run(folder).records]


def test_a_judges_score_stands_beside_the_others(tmp_path):
    plan = plain("fine", "fine", "window")  # the third question fails
    folder = go(plan, tmp_path / "out").folder
    before = read_run(folder)
    judge = make_judge(tmp_path, RIGHT, WRONG)
    done = judged(folder, plan, judge)
    run = read_run(folder)
    assert [r["scores"]["judge.a"] for r in run.records] == [1.0, 0.0, 0.0, 0.0]
    no = {"verdict": "no", "reply": "no"}
    notes = [r["notes"]["judges"]["judge.a"] for r in run.records]
    assert notes == [{"verdict": "yes", "reply": "Yes."}, no, {"verdict": "failed question"}, no]
    assert (len(asked(judge)), done.replied, done.cached, done.failures) == (3, 3, 0, {})
    assert run.summary["scores"]["judge.a"]["mean"] == frame([run]).iloc[0]["judge.a"] == 0.25
    assert run.config["dataset"]["scorers"][0] == SCORER, "the headline is what it was"
    (pair,) = judge_agreements(run)
    assert pair == {"a": "judge.a", "b": SCORER, "n": 3, "share": pytest.approx(1 / 3), "kappa": 0.0}
    told = run.manifest["judges"]["judge.a"]
    assert (told["prompt"], told["verdicts"]) == (judge.prompt.text, {"failed question": 1, "no": 2, "yes": 1})
    assert scorer_version(run, "judge.a") == judge.version
    assert {k: v for k, v in run.manifest.items() if k != "judges"} == before.manifest
    assert [r["usage"] for r in run.records] == [r["usage"] for r in before.records], "the method's costs are its own"


def test_scoring_again_and_resuming_keep_it(tmp_path):
    plan = plain(questions=3)
    folder = go(plan, tmp_path / "out").folder
    judged(folder, plan, make_judge(tmp_path, RIGHT, Rule(reply="Perhaps.")))
    run = read_run(folder)
    assert run.records[1]["notes"]["flags"] == {"judge.a": "the judge's reply is neither yes nor no"}
    rescore(folder)
    assert read_run(folder) == run
    go(plan, tmp_path / "out")
    again = read_run(folder)
    assert (again.records, again.summary) == (run.records, run.summary)
    rescore(folder, scorers=["flashrag.em"])
    changed = read_run(folder)
    assert changed.records[1]["notes"]["flags"] == run.records[1]["notes"]["flags"]
    assert {"flashrag.em", "judge.a"} <= changed.records[0]["scores"].keys()
    assert changed.summary["scores"]["judge.a"]["n"] == 3


def test_another_judge_stands_beside(tmp_path):
    plan = plain()
    folder = go(plan, tmp_path / "out").folder
    judged(folder, plan, make_judge(tmp_path, RIGHT, WRONG))
    judged(folder, plan, make_judge(tmp_path, Rule(reply="yes"), name="judge.b", identity={"name": "b"}))
    assert (scores(folder, "judge.a"), scores(folder, "judge.b")) == ([1.0, 0.0, 1.0, 0.0], [1.0] * 4)
    pairs = {(p["a"], p["b"]): (p["n"], p["share"]) for p in judge_agreements(read_run(folder))}
    assert pairs == {("judge.a", SCORER): (4, 0.5), ("judge.b", SCORER): (4, 1.0), ("judge.a", "judge.b"): (4, 0.5)}
    with pytest.raises(UserError, match="has a scorer 'musique.answer_f1'"):
        judged(folder, plan, make_judge(tmp_path, name=SCORER))


def test_scores_of_another_version_do_not_stay_beside_new_ones(tmp_path):
    plan = plain()
    folder = go(plan, tmp_path / "out").folder
    judged(folder, plan, make_judge(tmp_path, Rule(reply="yes")))
    newer = make_judge(tmp_path, RIGHT, prompt_version="2")  # no rule for w1: its judgements fail
    assert judged(folder, plan, newer).failures.keys() == {"q1", "q3"}
    assert scores(folder, "judge.a") == [1.0, None, 1.0, None]
    assert all("judge.a" not in r["notes"]["judges"] for r in read_run(folder).records[1::2])


def test_without_texts_a_record_holds_no_reply(tmp_path):
    plan = plain(questions=2)
    plan.config.dataset.__dict__["keep_texts"] = False
    folder = go(plan, tmp_path / "out").folder
    judged(folder, plan, make_judge(tmp_path, RIGHT, WRONG))
    notes = [r["notes"]["judges"] for r in read_run(folder).records]
    assert notes == [{"judge.a": {"verdict": verdict}} for verdict in ("yes", "no")]


def test_texts_that_are_taken_out_later_take_the_replies_along(tmp_path):
    plan = plain(questions=1)
    folder = go(plan, tmp_path / "out").folder
    judged(folder, plan, make_judge(tmp_path))
    plan.config.dataset.__dict__["keep_texts"] = False
    go(plan, tmp_path / "out")
    (record,) = read_run(folder).records
    assert (record["gold"], record["notes"]["judges"]) == (None, {"judge.a": {"verdict": "yes"}})
    assert record["scores"]["judge.a"] == 1.0


def test_a_question_that_is_gone_is_said(tmp_path):
    plan = plain(questions=2)
    folder = go(plan, tmp_path / "out").folder
    with pytest.raises(UserError, match="question 'q1' of .* is not in the data set any more"):
        judged(folder, plain(questions=1), make_judge(tmp_path))
