"""Scores of one folder come from one set of scorers: failed questions, other scorers on resume,
scorers that break."""

import errno
import json
import re
from dataclasses import replace

import pytest

from harness import scorers
from harness.cli.failures import failure_text
from harness.cli.output import mean_texts
from harness.config import registry
from harness.engine.progress import Silent
from harness.engine.rescore import rescore
from harness.engine.scoring import unanswered_verdict
from harness.errors import DataError, SaveError, UserError
from harness.storage.run_folder import read_run
from harness.types import Gold, Support
from reports.main_table import frame
from tests.engine.fakes import SCORER, Plain, World, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")

F1 = "longbench.qa_f1_score"
SHORT, LONG = f"{F1}.0-4k", f"{F1}.8k+"


def scored_by(plan, *names, limit=None):
    """The plan with these scorers, as --set dataset.scorers would give it."""
    data = plan.config.dataset.model_copy(update={"scorers": names})
    return replace(plan, config=plan.config.model_copy(update={"dataset": data, "limit": limit}))


def plain(data=None):
    return make_plan(data or World(questions=3, documents=3).dataset(), Plain(Plain.Config()))


def asked(plan):
    return [question.id for question, _ in plan.method.seen]


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def loaded(monkeypatch):
    """Let `harness score` find this data set."""
    return lambda data: monkeypatch.setattr("harness.datasets.load", lambda *_: data)


def grouped():
    """Four short texts that are answered, four long ones that do not fit; two of these without
    supporting marks."""
    data = World(questions=8, documents=1, words=("fine",) * 4 + ("window",) * 4).dataset()
    marks = [(Support("d0", 0, 2),)] * 6 + [()] * 2
    golds = [
        Gold(("w0",), mark, {"length": 100 if n < 4 else 9000}) for n, mark in enumerate(marks)
    ]
    return replace(
        data, examples=tuple(replace(e, gold=g) for e, g in zip(data.examples, golds, strict=True))
    )


def test_a_failed_question_counts_in_its_own_groups_only(tmp_path, loaded):
    plan = scored_by(plain(grouped()), F1, SHORT, LONG, "evidence_recall")
    result = go(plan, tmp_path)
    means = {name: (score.mean, score.n) for name, score in result.summary.scores.items()}
    assert means == {
        F1: (0.5, 8),
        SHORT: (1.0, 4),
        LONG: (0.0, 4),
        "evidence_recall": (pytest.approx(4 / 6), 6),
    }
    row = frame([read_run(result.folder)]).iloc[0]
    assert {name: row[name] for name in means} == {name: mean for name, (mean, _) in means.items()}
    assert mean_texts(result.summary)[SHORT].endswith(" over 4 of 8 questions")
    assert "over" not in mean_texts(result.summary)[F1]
    before = read_run(result.folder)
    loaded(grouped())
    rescore(result.folder)
    assert read_run(result.folder) == before, "harness score says the same"


@pytest.mark.parametrize(
    ("name", "extra", "counts"),
    [
        ("quality.accuracy.hard", {"difficult": 1, "all_classes": ["a", "b"]}, True),
        ("quality.accuracy.hard", {"difficult": 0, "all_classes": ["a", "b"]}, False),
        ("quality.accuracy.hard", {"difficult": 1}, True),  # cannot be scored, and counts 0
        ("evidence_recall", {}, False),
        ("evidence_recall_sources", {}, False),
        (F1, {}, True),
        ("tests.engine.test_rescore:fussy", {}, True),
    ],
)
def test_which_scorers_count_a_failed_question(name, extra, counts):
    registry.trust(name)
    config = scored_by(make_plan(), name).config.dataset
    assert unanswered_verdict(config, Gold(("a",), (), extra)).scores == (
        {name: 0.0} if counts else {}
    )


def fussy(prediction, references):
    """A user's scorer that breaks on an empty answer."""
    return float(prediction.split()[0] in references)


def test_going_on_with_other_scorers_scores_what_is_there_again(tmp_path):
    plan = plain()
    go(scored_by(plan, SCORER, "evidence_recall", limit=1), tmp_path)
    progress = Silent()
    result = go(scored_by(plan, "flashrag.em", limit=2), tmp_path, progress=progress)
    assert {name: score.n for name, score in result.summary.scores.items()} == {"flashrag.em": 2}
    stored = read_run(result.folder)
    assert [r.scores for r in stored.records] == [{"flashrag.em": 1.0}] * 2
    assert (asked(plan), stored.config.dataset.scorers) == (["q0", "q1"], ["flashrag.em"])
    assert stored.manifest.scorers == {"flashrag.em": scorers.version("flashrag.em")}
    assert not stored.manifest.last_start.changed_keys, (
        "the records are of the new scorers, all of them"
    )
    assert any("1 scored again with flashrag.em 1" in note for note in progress.notes)


def test_the_first_command_after_harness_score_has_its_headline_again(tmp_path, loaded):
    plan = plain()
    first = go(plan, tmp_path)
    records = (first.folder / "records.jsonl").read_bytes()
    loaded(plan.dataset)
    assert rescore(first.folder, scorers=["flashrag.em"], only=True).scores.keys() == {
        "flashrag.em"
    }
    assert list(rescore(first.folder, scorers=[SCORER]).scores) == ["flashrag.em", SCORER]
    again = go(plan, tmp_path)
    assert again.summary.scores == first.summary.scores
    assert (first.folder / "records.jsonl").read_bytes() == records
    assert frame([read_run(first.folder)]).iloc[0][SCORER] == 1.0


def test_a_scorer_that_is_added_imports_no_code_of_the_runs_other_scorers(tmp_path, monkeypatch):
    registry.trust(name := f"{__name__}:fussy")
    folder = go(scored_by(plain(), name, SCORER), tmp_path).folder
    before = read_run(folder)
    monkeypatch.setattr(registry, "_trusted_targets", set())
    rescore(folder, scorers=["flashrag.em"])
    run = read_run(folder)
    assert [r.scores for r in run.records] == [
        {**r.scores, "flashrag.em": 1.0} for r in before.records
    ]
    assert list(run.summary.scores) == run.config.dataset.scorers == [name, SCORER, "flashrag.em"]
    assert run.manifest.scorers.items() >= before.manifest.scorers.items()


def test_an_added_scorer_computes_those_again_that_a_record_lacks(tmp_path):
    folder = go(scored_by(plain(), SCORER), tmp_path).folder
    first, *others = (
        json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()
    )
    del first["scores"][SCORER]
    (folder / "records.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in (first, *others))
    )
    rescore(folder, scorers=["flashrag.em"])
    assert all(row.scores.keys() == {SCORER, "flashrag.em"} for row in read_run(folder).records)


@pytest.mark.parametrize("why", ["version", "mixed before"])
def test_records_of_other_scorers_are_found_out(why, tmp_path, monkeypatch):
    plan = scored_by(plain(), SCORER)
    path = go(plan, tmp_path).folder / "records.jsonl"
    if why == "version":
        path.write_bytes(
            path.read_bytes().replace(b'{"musique.answer_f1": 1.0}', b'{"musique.answer_f1": 0.25}')
        )
        assert go(plan, tmp_path).summary.scores[SCORER].mean == 0.25, (
            "the same scorers: nothing is done again"
        )
        monkeypatch.setattr("harness.scorers.version", lambda _: "2")
    else:
        path.write_bytes(
            path.read_bytes().replace(b'{"musique.answer_f1": 1.0}', b'{"flashrag.em": 1.0}', 1)
        )
    summary = go(plan, tmp_path).summary
    assert {name: (s.mean, s.n) for name, s in summary.scores.items()} == {SCORER: (1.0, 3)}


def test_questions_beyond_the_limit_are_scored_again_too(tmp_path, loaded):
    plan = plain()
    go(plan, tmp_path)
    loaded(plan.dataset)
    few = replace(plan, dataset=replace(plan.dataset, examples=plan.dataset.examples[:1]))
    summary = go(scored_by(few, "flashrag.em", limit=1), tmp_path).summary
    assert {name: score.n for name, score in summary.scores.items()} == {"flashrag.em": 3}


@pytest.fixture
def breaks(monkeypatch):
    """A bug in a scorer that shows on one answer; call it to mend the scorer."""
    right = scorers.score_answer

    def broken(names, prediction, *rest):
        if prediction == "w1":
            raise ZeroDivisionError("division by zero")
        return right(names, prediction, *rest)

    monkeypatch.setattr("harness.scorers.score_answer", broken)
    return lambda: monkeypatch.setattr("harness.scorers.score_answer", right)


@pytest.mark.parametrize("way", ["harness score", "--retry-failed"])
def test_an_answer_that_was_not_scored_is_scored_once_the_scorer_is_mended(
    way, tmp_path, breaks, loaded
):
    plan = plain()
    result = go(plan, tmp_path)
    bad = read_run(result.folder).records[1]
    assert (bad.error["type"], bad.error["stage"], bad.prediction) == (
        "ZeroDivisionError",
        "scoring",
        "w1",
    )
    assert bad.scores[SCORER] == 0.0
    text = failure_text(result, "", with_traceback=False)
    assert (f"harness score {result.folder}" in text, "--retry-failed" in text) == (True, False)
    loaded(plan.dataset)
    for _ in range(
        2
    ):  # the first time the scorer is as it was: the answer is kept, and stays failed
        summary = (
            rescore(result.folder)
            if way == "harness score"
            else go(plan, tmp_path, retry_failed=True).summary
        )
        record = read_run(result.folder).records[1]
        assert record.prediction == "w1"
        assert (record.error is None) is (summary.n_failed == 0)
        breaks()
    assert (summary.n_failed, summary.scores[SCORER].mean, record.error) == (
        0,
        1.0,
        None,
    )
    assert asked(plan) == ["q0", "q1", "q2"], "no answer was asked for twice"


def test_a_failing_score_leaves_the_folder_as_it_was(tmp_path, loaded, monkeypatch):
    plan = plain()
    folder = go(plan, tmp_path).folder
    before = files(folder)
    loaded(replace(plan.dataset, examples=plan.dataset.examples[:2]))
    with pytest.raises(UserError, match="question 'q2' is not in the data set any more"):
        rescore(folder, scorers=["flashrag.em"], data="rows.jsonl")
    assert files(folder) == before
    loaded(plan.dataset)
    monkeypatch.setattr("harness.scorers.score_answer", lambda names, text, *_: text.split()[1])
    with pytest.raises(DataError, match=r"its gold answers cannot be used \(IndexError"):
        rescore(folder, scorers=["flashrag.em"])
    assert files(folder) == before
    with pytest.raises(IndexError):
        go(scored_by(plan, "flashrag.em"), tmp_path)
    assert files(folder) == before


def wordy(prediction, references):
    return "good"


def percent(prediction, references):
    return 50.0


def divides(prediction, references):
    return 1 / 0


def silent(prediction, references):
    """Says nothing about any question."""


@pytest.mark.parametrize(
    ("scorer", "sentence"),
    [
        (
            "wordy",
            (
                "TypeError: scorer 'tests.engine.test_rescore:wordy' returned 'good'; it should return "
                "a number"
            ),
        ),
        (
            "percent",
            (
                "TypeError: scorer 'tests.engine.test_rescore:percent' returned 50.0; it should return "
                "a number"
            ),
        ),
        ("divides", "ZeroDivisionError: division by zero (tests/engine/test_rescore.py:"),
    ],
)
def test_a_scorer_of_the_users_own_that_breaks_is_told_in_one_sentence(scorer, sentence, tmp_path):
    registry.trust(name := f"{__name__}:{scorer}")
    folder = go(plain(), tmp_path).folder
    before = files(folder)
    with pytest.raises(UserError, match=re.escape(sentence)) as caught:
        rescore(folder, scorers=[name])
    assert str(caught.value).startswith(
        "question 'q0' could not be scored, and no record was changed: "
    )
    assert files(folder) == before
    assert f"3 of them like 'q0': {sentence}" in failure_text(
        go(scored_by(plain(), name), tmp_path / "new"), "", with_traceback=False
    )


def test_a_scorer_that_scores_no_question_is_told(tmp_path, capsys):
    registry.trust(name := f"{__name__}:silent")
    progress = Silent()
    folder = go(scored_by(plain(), SCORER, name), tmp_path, progress=progress).folder
    sentence = f"warning: no question has a score by {name}, as it returned None for each"
    assert progress.notes == [sentence]
    rescore(folder)
    assert capsys.readouterr().err == sentence + "\n"


def test_a_folder_that_cannot_be_written_is_told_without_options_of_other_commands(
    tmp_path, monkeypatch
):
    folder = go(plain(), tmp_path).folder

    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("harness.storage.files.os.replace", refuse)
    with pytest.raises(SaveError) as error:
        rescore(folder, scorers=["flashrag.em"])
    assert str(error.value).endswith(
        f"make the folder {folder} writable, then run the same command again."
    )


def corrected(data, **golds):
    """The data set with other gold answers to some questions, in a file of their own."""
    examples = tuple(
        replace(e, gold=Gold((golds[e.question.id],))) if e.question.id in golds else e
        for e in data.examples
    )
    return replace(data, examples=examples, fingerprint="corrected", source="better.jsonl")


def files_of(monkeypatch, original, other):
    """Let `harness score` find `other` in the file that --data names, `original` in the run's own
    place."""
    monkeypatch.setattr(
        "harness.datasets.load", lambda config, _: other if config.data else original
    )


def test_corrected_gold_answers_are_scored_and_the_scores_of_before_are_kept(tmp_path, monkeypatch):
    data = World(questions=3, documents=3).dataset()
    plan = plain(data)
    folder = go(plan, tmp_path).folder
    before = read_run(folder)
    files_of(monkeypatch, data, corrected(data, q0="zzz"))
    summary = rescore(folder, data="better.jsonl")
    run = read_run(folder)
    assert run.records[0].gold["answers"] == ["zzz"]
    assert (before.records[0].scores[SCORER], run.records[0].scores[SCORER]) == (1.0, 0.0)
    assert run.records[0].notes["uncorrected"] == before.records[0].scores
    assert run.records[1:] == before.records[1:]
    assert run.manifest.dataset.fingerprint == "corrected"
    assert summary.scores[SCORER].mean == pytest.approx(2 / 3)
    mean = 100 * before.summary.scores[SCORER].mean
    said = f"gold answers of 1 questions were corrected on .* \\(better.jsonl\\); the means before: {SCORER} {mean:.1f}"
    assert any(re.match(said, note) for note in frame([run])["notes"][0])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda e: replace(e, question=replace(e.question, text="Another?")),
            "question 'q1' is another one, and only",
        ),
        (
            lambda e: replace(e, question=replace(e.question, id="q9")),
            "question 'q1' is another one, and only",
        ),
        (lambda e: e, "no gold answer of its questions differs; leave --data out"),
    ],
)
def test_rows_that_differ_in_more_than_gold_answers_correct_nothing(
    change, sentence, tmp_path, monkeypatch
):
    data = World(questions=3, documents=3).dataset()
    folder = go(plain(data), tmp_path).folder
    before = files(folder)
    examples = tuple(change(e) if e.question.id == "q1" else e for e in data.examples)
    files_of(monkeypatch, data, replace(data, examples=examples, fingerprint="other"))
    with pytest.raises(UserError, match=re.escape(sentence)):
        rescore(folder, data="better.jsonl")
    assert files(folder) == before


def test_another_document_or_rows_of_then_that_are_gone_correct_nothing(tmp_path, monkeypatch):
    data = World(questions=3, documents=3).dataset()
    folder = go(plain(data), tmp_path).folder
    other = corrected(data, q0="x")
    documents = {name: replace(d, text=d.text + "!") for name, d in data.documents.items()}
    files_of(monkeypatch, data, replace(other, documents=documents))
    with pytest.raises(
        UserError, match="a document of question 'q0' is another one; only gold answers may differ"
    ):
        rescore(folder, data="better.jsonl")
    files_of(monkeypatch, other, other)
    with pytest.raises(
        UserError, match="Other gold answers are taken where the rows of then are still at"
    ):
        rescore(folder, data="better.jsonl")
