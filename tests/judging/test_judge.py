"""A model as a judge: what it is asked, how its reply is read, what is not asked for again, and a
run that it judged."""

import hashlib
from dataclasses import replace

import pytest

from harness.config.schema import ModelConfig
from harness.engine.progress import Silent
from harness.engine.rescore import rescore
from harness.errors import ModelOutputError, QuestionError, UserError
from harness.judging.judge_run import judge_run
from harness.judging.kinds import PROMPT, PROMPTS, VERSION, Scale, parse_verdict, read_prompt
from harness.judging.model_judge import (
    Case,
    Judge,
    JudgeReplies,
)
from harness.judging.published import published_for
from harness.llm.scripted import Rule, Script, ScriptedModel
from harness.storage.run_folder import read_run
from harness.types import Example, Gold, Question
from reports.facts import scorer_version
from reports.judges import judge_agreements
from reports.labels import ONLY_RATER, HandLabels, label_agreements
from reports.main_table import frame
from tests.engine.fakes import SCORER, Plain, World, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")

CASE = Case("q1", "Who built the mill?", None, ("Ann", "Ann Lee"), "It was Ann.")


def make_judge(root, *replies, name="judge.a", **more):
    model = ScriptedModel(Script(replies=list(replies) or [Rule(reply="Yes")]))
    config = ModelConfig(name="a", backend="scripted")
    values = {
        "identity": {"name": "a"},
        "prompt": PROMPT,
        "prompt_version": VERSION,
        "max_tokens": 8,
        **more,
    }
    judge = Judge(name, config, replies=JudgeReplies(root), **values)
    judge.model = model
    return judge


def asked_and_kept(judge, case=CASE):
    judgement = judge.request(case)
    judge.store_reply(case, judgement)
    return judgement


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("yes", "yes"),
        ("  Yes.\n", "yes"),
        ("**No**, it names another town.", "no"),
        ("Both name Ann, so the answer is: YES", "yes"),
        ("They differ.\n\nno.", "no"),
        ("Yes and no", "unclear"),
        ("Maybe", "unclear"),
        ("Yesterday", "unclear"),
        ("not right", "unclear"),
        ("", "unclear"),
        ("...", "unclear"),
    ],
)
def test_how_a_reply_is_read(reply, verdict):
    assert parse_verdict(reply) == verdict


def test_the_prompt_has_not_changed_under_its_version():
    found = {
        version: hashlib.sha256(prompt.text.encode()).hexdigest()[:8]
        for prompt, version in PROMPTS.values()
    }
    expected = {VERSION: "8dbe937d", "faithfulness 1": "397418c7", "relevance 1": "53cad5cf"}
    assert found == expected, "a changed prompt needs a new version, as scores are not comparable"


def test_the_judge_sees_question_options_gold_answers_and_answer(tmp_path):
    judge = make_judge(tmp_path)
    judgement = judge.request(replace(CASE, options=("Ann", "Bob")))
    (prompt,) = judge.model.prompts
    assert "Question: Who built the mill?\n(A) Ann\n(B) Bob\n" in prompt
    assert "enough):\n- Ann\n- Ann Lee\n" in prompt
    assert "Answer to judge: It was Ann.\n" in prompt
    assert (judgement.verdict, judgement.score, judgement.flag, judgement.usage["tokens_out"]) == (
        "yes",
        1.0,
        None,
        1,
    )


def test_only_what_was_not_asked_before_is_asked(tmp_path):
    first = asked_and_kept(make_judge(tmp_path))
    again = make_judge(tmp_path, name="judge.other name")
    known = again.judge_without_asking(
        replace(CASE, question_id="the same question of another run")
    )
    assert (known.verdict, known.reply, known.usage, known.cached) == (
        "yes",
        "Yes",
        first.usage,
        True,
    )
    changes = ({"question": "Who?"}, {"options": ("Ann",)}, {"gold": ("Ann",)}, {"answer": "Ann."})
    assert all(again.judge_without_asking(replace(CASE, **change)) is None for change in changes)
    others = ({"identity": {"name": "b"}}, {"prompt_version": "2"}, {"max_tokens": 9})
    assert all(make_judge(tmp_path, **other).judge_without_asking(CASE) is None for other in others)


def test_a_damaged_reply_is_asked_for_again(tmp_path):
    asked_and_kept(make_judge(tmp_path))
    (path,) = tmp_path.glob("*/*.json")
    for damage in ("{", "[]", '{"reply": "no"}', '{"reply": "no", "usage": 3}'):
        path.write_text(damage, encoding="utf-8")
        assert make_judge(tmp_path).judge_without_asking(CASE) is None


def test_an_answer_that_needs_no_model(tmp_path):
    judge = make_judge(tmp_path)
    for change, score in (({"answer": " \n"}, 0.0), ({"gold": ()}, None)):
        found = judge.judge_without_asking(replace(CASE, **change))
        assert (found.score, bool(found.flag), found.reply) == (score, True, None)


def test_a_reply_that_is_missing_is_not_kept(tmp_path):
    judge = make_judge(tmp_path, Rule(when="never", reply="yes"))
    with pytest.raises(ModelOutputError):
        judge.request(CASE)
    assert judge.judge_without_asking(CASE) is None


def test_a_prompt_of_ones_own(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("{question}|{answers}|{answer}\n", encoding="utf-8")
    prompt, version = read_prompt(str(file))
    judge = make_judge(tmp_path, prompt=prompt, prompt_version=version)
    judge.request(CASE)
    assert judge.model.prompts[0].endswith("Who built the mill?|- Ann\n- Ann Lee|It was Ann.")
    file.write_text("{question}|{answers}|{answer}!", encoding="utf-8")
    assert read_prompt(str(file))[1] != version
    assert read_prompt(None) == (PROMPT, VERSION)


SHOWN = ("Ann built the mill.", "It stands in Abel.")


@pytest.mark.parametrize(("kind", "asked"), [("faithfulness", "It was Ann."), ("relevance", None)])
def test_other_kinds_see_what_was_shown_and_no_gold_answer(kind, asked, tmp_path):
    prompt, version = read_prompt(None, kind)
    judge = make_judge(tmp_path, prompt=prompt, prompt_version=version, kind=kind)
    judgement = asked_and_kept(judge, replace(CASE, shown=SHOWN))
    (sent,) = judge.model.prompts
    assert (
        "Texts:\nAnn built the mill.\n\nIt stands in Abel.\n\nQuestion: Who built the mill?" in sent
    )
    assert ("Answer to judge: It was Ann." in sent) is (asked is not None)
    assert "Ann Lee" not in sent
    assert (judgement.verdict, judgement.score) == ("yes", 1.0)
    assert judge.judge_without_asking(replace(CASE, shown=SHOWN[:1])) is None, (
        "another text is another request"
    )
    nothing = judge.judge_without_asking(CASE)
    assert (nothing.verdict, nothing.score, nothing.flag) == (
        "no text shown",
        0.0,
        "the reader was shown no text",
    )
    assert judge.judge_without_asking(replace(CASE, shown=SHOWN, gold=())) is not None, (
        "it needs no gold answer"
    )


@pytest.mark.parametrize(
    ("reply", "verdict", "score"),
    [
        ("4", "4", 0.75),
        ("Score: 1.", "1", 0.0),
        ("5/5", "5", 1.0),
        ("3 out of 5, as it is vague", "3", 0.5),
        ("It thanks in 2 places. Rating: [[4.5]]", "4.5", 0.875),
        ("Rating: [[9]]", "unclear", 0.0),
        ("2 or 3", "unclear", 0.0),
        ("9", "unclear", 0.0),
        ("good", "unclear", 0.0),
        ("", "unclear", 0.0),
    ],
)
def test_a_number_of_a_rubric(reply, verdict, score, tmp_path):
    file = tmp_path / "rubric.txt"
    file.write_text("How polite is it? {answer}", encoding="utf-8")
    scale = Scale.parse("1-5")
    prompt, version = read_prompt(str(file), scale=scale)
    judge = make_judge(
        tmp_path,
        Rule(reply=reply),
        prompt=prompt,
        prompt_version=version,
        scale=scale,
        kind="rubric",
    )
    judgement = judge.request(CASE)
    assert (judgement.verdict, judgement.score) == (verdict, score)
    assert version.endswith(", scale 1-5")


@pytest.mark.parametrize(
    ("text", "scale", "sentence"),
    [
        ("How polite?", "1-5", "shows nothing to judge"),
        (
            "{answer} {document}",
            "1-5",
            "has no placeholder {document}; it may have {question}, {answers}, {answer}",
        ),
        ("{answer}", "5-1", "two whole numbers, the lower one first"),
        ("{answer}", "1 to 5", "two whole numbers, the lower one first"),
        (None, "1-5", "add --prompt FILE"),
    ],
)
def test_a_rubric_that_cannot_be_used(text, scale, sentence, tmp_path):
    file = tmp_path / "rubric.txt"
    file.write_text(text or "", encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_prompt(None if text is None else str(file), scale=Scale.parse(scale))
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{question} {answers}", "lacks {answer}"),
        ("{question} {answers} {answer} {document}", "has no placeholder {document}"),
        (None, "cannot be read"),
    ],
)
def test_a_prompt_that_cannot_be_used(text, sentence, tmp_path):
    file = tmp_path / "mine.txt"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_prompt(str(file))
    assert sentence in str(error.value)


PUBLISHED = {"fact": "d38ca682", "temporal-reasoning": "267ef173", "knowledge-update": "55438698"}
PUBLISHED |= {"single-session-preference": "1bc08b6f", "abstention": "99f71ff7"}
HISTORY = Example(
    Question("q1", "Whose?", ("d",)), Gold(("Ann", "Bo"), extra={"judge": "longmemeval/abstention"})
)


def published(name="longmemeval/abstention"):
    gold = replace(HISTORY.gold, extra={"judge": name})
    return published_for({"q1": replace(HISTORY, gold=gold)})


def test_the_published_prompts_are_letter_for_letter():
    found = published()
    texts = {
        kind: hashlib.sha256(prompt.text.encode()).hexdigest()[:8]
        for kind, prompt in found.prompts.items()
    }
    assert texts == PUBLISHED, "an editor may have cut a space at the end of a line"


def test_a_published_prompt_asks_and_reads_as_its_authors_do(tmp_path):
    found = published()
    judge = make_judge(tmp_path, Rule(reply="No, or yes"), published=found)
    case = replace(CASE, prompt="abstention")
    assert judge.request(case).verdict == "yes"
    assert judge.model.prompts[0].endswith(
        "Question: Who built the mill?\n\nExplanation: Ann\n\nModel Response: It was Ann.\n\n"
        "Does the model correctly identify the question as unanswerable? Answer yes or no only."
    )
    with pytest.raises(QuestionError, match="'odd' is none of the prompts of xiaowu0162"):
        judge.request(replace(case, prompt="odd"))


@pytest.mark.parametrize("name", ["", "../judges/longmemeval/fact", "other/fact"])
def test_a_name_that_is_no_file_of_published_prompts(name):
    assert published(name) is None


RATINGS = [
    ("Rating: [[100]]", "100", 1.0),
    ("Rating: [[87.5]]", "87.5", 0.875),
    ("[[1]]", "1", 0.01),
    ("Evidence [3] of 5. Rating: [[40]]", "40", 0.4),
    ("Rating: [75]", "75", 0.75),
    ("[[.5]]", ".5", 0.005),
    ("[[80]] then [[20]]", "80", 0.8),
    ("[[0]]", "0", 0.0),
    ("score [[99.99]].", "99.99", 0.9999),
    ("[[100]", "100", 1.0),
    ("Rating: 75", "unclear", 0.0),
    ("Rating: [[ 75 ]]", "unclear", 0.0),
    ("Rating: [[75/100]]", "unclear", 0.0),
    ("", "unclear", 0.0),
]
"""Made-up replies, and what the authors' `extract_number` reads in them."""


@pytest.mark.parametrize(("reply", "verdict", "score"), RATINGS)
def test_a_rating_of_loong_is_read_as_its_authors_do(reply, verdict, score, tmp_path):
    judge = make_judge(tmp_path, Rule(reply=reply), published=published("loong/rating"))
    judgement = judge.request(replace(CASE, prompt="rating"))
    assert (judgement.verdict, judgement.score) == (verdict, pytest.approx(score))
    assert (judgement.flag is not None) is (verdict == "unclear")


RIGHT, WRONG = Rule(when="judge: w0\n", reply="Yes."), Rule(reply="no")


def plain(*words, questions=4):
    """Questions whose answers are w0, w1, w0, w1, ..., all right by the scorer."""
    return make_plan(World(questions=questions, words=words).dataset(), Plain(Plain.Config()))


def judged(folder, plan, judge):
    examples = {example.question.id: example for example in plan.dataset.examples}
    return judge_run(folder, examples, judge, parallel=1, progress=Silent())


def scores(folder, name):
    return [record.scores.get(name) for record in read_run(folder).records]


def test_a_judges_score_stands_beside_the_others(tmp_path):
    plan = plain("fine", "fine", "window")  # the third question fails
    folder = go(plan, tmp_path / "out").folder
    before = read_run(folder)
    judge = make_judge(tmp_path, RIGHT, WRONG)
    done = judged(folder, plan, judge)
    run = read_run(folder)
    assert [r.scores["judge.a"] for r in run.records] == [1.0, 0.0, 0.0, 0.0]
    no = {"verdict": "no", "reply": "no"}
    notes = [r.notes["judges"]["judge.a"] for r in run.records]
    assert notes == [{"verdict": "yes", "reply": "Yes."}, no, {"verdict": "failed question"}, no]
    assert (len(judge.model.prompts), done.replied, done.cached, done.failures) == (3, 3, 0, {})
    assert run.summary.scores["judge.a"].mean == frame([run]).iloc[0]["judge.a"] == 0.25
    assert run.config.dataset.scorers[0] == SCORER, "the headline is what it was"
    (pair,) = judge_agreements(run)
    assert pair.columns() == {
        "a": "judge.a",
        "b": SCORER,
        "n": 3,
        "share": pytest.approx(1 / 3),
        "kappa": 0.0,
        "low": None,
        "high": None,
    }
    kept = run.manifest.judges["judge.a"]
    assert (kept.prompt, kept.verdicts) == (
        judge.prompt.text,
        {"failed question": 1, "no": 2, "yes": 1},
    )
    assert scorer_version(run, "judge.a") == judge.version
    assert run.manifest.without("judges") == before.manifest
    assert [r.usage for r in run.records] == [r.usage for r in before.records], (
        "the method's costs are its own"
    )


def test_what_was_shown_is_judged_long_texts_too_and_not_compared_with_right_answers(tmp_path):
    plan = plain("fine", "fine")
    folder = go(plan, tmp_path / "out").folder
    prompt, version = read_prompt(None, "faithfulness")
    judge = make_judge(
        tmp_path, WRONG, name="judge.f", prompt=prompt, prompt_version=version, kind="faithfulness"
    )
    assert judged(folder, plan, judge).count("no") == 4
    run = read_run(folder)
    document = next(iter(plan.dataset.documents.values())).text
    assert document in judge.model.prompts[0]
    assert (judge_agreements(run), run.manifest.judges["judge.f"].kind) == (
        [],
        "faithfulness",
    )
    labels = {
        run.records[0].question_id: "no",
        run.records[1].question_id: "yes",
        "gone": "no",
    }
    (pair,) = label_agreements(run, HandLabels({ONLY_RATER: labels}))
    assert pair.columns() == {
        "a": "judge.f",
        "b": "labels",
        "n": 2,
        "share": 0.5,
        "kappa": 0.0,
        "low": None,
        "high": None,
    }


def without_checksums(run):
    """The summary without the checksums of the files: a further start is in the manifest."""
    return {key: value for key, value in run.summary.to_json().items() if key != "files"}


def test_scoring_again_and_resuming_keep_it(tmp_path):
    plan = plain(questions=3)
    folder = go(plan, tmp_path / "out").folder
    judged(folder, plan, make_judge(tmp_path, RIGHT, Rule(reply="Perhaps.")))
    run = read_run(folder)
    assert run.records[1].notes["flags"] == {"judge.a": "the judge's reply holds no verdict"}
    rescore(folder)
    assert read_run(folder) == run
    go(plan, tmp_path / "out")
    again = read_run(folder)
    assert again.records == run.records
    assert without_checksums(again) == without_checksums(run)
    rescore(folder, scorers=["flashrag.em"])
    changed = read_run(folder)
    assert changed.records[1].notes["flags"] == run.records[1].notes["flags"]
    assert {"flashrag.em", "judge.a"} <= changed.records[0].scores.keys()
    assert changed.summary.scores["judge.a"].n == 3


def test_another_judge_stands_beside(tmp_path):
    plan = plain()
    folder = go(plan, tmp_path / "out").folder
    judged(folder, plan, make_judge(tmp_path, RIGHT, WRONG))
    judged(
        folder,
        plan,
        make_judge(tmp_path, Rule(reply="yes"), name="judge.b", identity={"name": "b"}),
    )
    assert (scores(folder, "judge.a"), scores(folder, "judge.b")) == (
        [1.0, 0.0, 1.0, 0.0],
        [1.0] * 4,
    )
    pairs = {
        (p.first, p.second): (p.agreement.n, p.agreement.share)
        for p in judge_agreements(read_run(folder))
    }
    assert pairs == {
        ("judge.a", SCORER): (4, 0.5),
        ("judge.b", SCORER): (4, 1.0),
        ("judge.a", "judge.b"): (4, 0.5),
    }
    with pytest.raises(UserError, match="has a scorer 'musique.answer_f1'"):
        judged(folder, plan, make_judge(tmp_path, name=SCORER))


def test_scores_of_another_version_do_not_stay_beside_new_ones(tmp_path):
    plan = plain()
    folder = go(plan, tmp_path / "out").folder
    judged(folder, plan, make_judge(tmp_path, Rule(reply="yes")))
    newer = make_judge(tmp_path, RIGHT, prompt_version="2")  # no rule for w1: its judgements fail
    assert judged(folder, plan, newer).failures.keys() == {"q1", "q3"}
    assert scores(folder, "judge.a") == [1.0, None, 1.0, None]
    assert all("judge.a" not in r.notes["judges"] for r in read_run(folder).records[1::2])


@pytest.mark.parametrize("later", [False, True], ids=["from the start", "taken out later"])
def test_without_texts_a_record_holds_no_reply(later, tmp_path):
    plan = plain(questions=2)
    plan.config.dataset.__dict__["keep_texts"] = later
    folder = go(plan, tmp_path / "out").folder
    judged(folder, plan, make_judge(tmp_path, RIGHT, WRONG))
    plan.config.dataset.__dict__["keep_texts"] = False
    go(plan, tmp_path / "out")
    records = read_run(folder).records
    assert [r.notes["judges"] for r in records] == [
        {"judge.a": {"verdict": "yes"}},
        {"judge.a": {"verdict": "no"}},
    ]
    assert [(r.gold, r.scores["judge.a"]) for r in records] == [(None, 1.0), (None, 0.0)]


def test_a_question_that_is_gone_is_said(tmp_path):
    plan = plain(questions=2)
    folder = go(plan, tmp_path / "out").folder
    with pytest.raises(UserError, match="question 'q1' of .* is not in the data set any more"):
        judged(folder, plain(questions=1), make_judge(tmp_path))
