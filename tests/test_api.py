"""The Python front door: what `import harness` offers, on the same terms as the command line."""

import shutil
import statistics
from collections.abc import Iterator
from dataclasses import fields
from types import NoneType, UnionType
from typing import get_args, get_type_hints

import pytest

import harness
from harness.api.run_arguments import RunArguments
from harness.config import plugins
from harness.datasets.rows import Row
from harness.errors import HarnessError, LimitReached, UserError
from harness.method import Indexes, Tools
from harness.types import Answer, Question
from tests.cli.fakes import Echo
from tests.made_up import musique_rows

DATA = "pocket/musique"


@pytest.fixture(autouse=True)
def _own_folder(here, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    yield
    plugins.targets.cache_clear()  # a class that a test runs is a preset of this process


def run(method: str = "echo", **settings: object) -> harness.Run:
    return harness.run(method, DATA, limit=2, mlflow="off", progress=False, **settings)  # type: ignore[arg-type]


def test_one_method_on_one_data_set_is_a_run() -> None:
    echo = run(set={"method.k": 2})
    assert echo.summary["n_total"] == 2
    assert echo.config["method"]["params"]["k"] == 2
    assert echo.stored.origins["method.params.k"] == "--set"
    assert (echo.failed, echo.save_problems) == (0, ())
    assert harness.load_run(echo.folder).summary == echo.summary
    with pytest.raises(UserError, match="is not a run folder"):
        harness.load_run(echo.folder.parent)


def test_the_records_are_a_frame() -> None:
    echo = run()
    frame = echo.records
    assert list(frame["question_id"]) == [record.question_id for record in echo.stored.records]
    first, record = frame.iloc[0], echo.stored.records[0]
    assert (first["question"], first["gold"]) == (record.question, record.gold["answers"])
    assert first["longbench.qa_f1_score"] == record.scores["longbench.qa_f1_score"]
    assert (first["prediction"], first["shown"], first["steps"], first["error"]) == (
        "echo",
        1,
        1,
        None,
    )
    assert first["tokens"] == 0
    failed = run("fails-once").records
    assert failed["error"][0] == "ValueError: the first question is too hard"
    assert failed["error"].isna().tolist() == [False, True]
    bare = run("echo-loud", keep_texts=False).records
    assert bare["question"].isna().all()
    assert bare["gold"].isna().all()


def test_an_index_is_a_row_of_documents() -> None:
    walks = harness.run("bm25", DATA, limit=2, model="random", mlflow="off", progress=False)
    assert set(walks.documents["document_id"]) == {
        line.document_id for line in walks.stored.index_lines
    }
    assert walks.records["tokens"].gt(0).all()
    assert (
        walks.records["tokens"]
        == walks.records["tokens.answer"] + walks.records.get("tokens.search", 0)
    ).all()


def test_runs_are_compared() -> None:
    echo, loud = run(set={"method.k": 2}), run("echo-loud")
    assert list(harness.compare(echo)["method"]) == ["echo [k=2]"]
    both = echo.compare(loud).set_index("method")
    score = both["longbench.qa_f1_score"]
    assert (both["reference"]["echo-loud"], both["paired.n"]["echo-loud"]) == ("echo [k=2]", 2)
    assert both["difference"]["echo-loud"] == score["echo-loud"] - score["echo [k=2]"]
    more = harness.run("echo-loud", DATA, limit=1, out="more", mlflow="off", progress=False)
    with pytest.raises(UserError, match="answered different questions"):
        harness.compare(echo.folder, more)
    assert harness.score(echo, scorers=["flashrag.em"])["scores"]["flashrag.em"]["mean"] == 0.0


def test_several_are_runs_and_a_row_that_cannot_run_does_not_lose_the_others() -> None:
    runs = harness.run(["echo", "refuses"], [DATA], limit=2, mlflow="off", progress=False)
    assert [one.config["method"]["name"] for one in runs] == ["echo"]
    assert list(runs.lost) == [f"refuses on {DATA}"]
    assert list(runs.table["method"]) == ["echo"]
    assert "<td>echo</td>" in runs._repr_html_()
    with pytest.raises(UserError, match="unknown method 'ecko'"):
        harness.run(["ecko", "echo"], DATA, mlflow="off", progress=False)


def test_fail_fast_raises_at_the_first_question_that_fails() -> None:
    with pytest.raises(HarnessError, match="the first question is too hard"):
        harness.run(
            ["fails-once", "echo"], DATA, limit=2, fail_fast=True, mlflow="off", progress=False
        )


def test_suites_and_sweeps() -> None:
    pair = harness.run(suite="pair", limit=2, mlflow="off", progress=False)
    assert [one.config["method"]["name"] for one in pair] == ["echo", "fails-once"]
    assert [one.failed for one in pair] == [0, 1]
    swept = harness.run(
        "echo", DATA, sweep={"method.k": [1, 3]}, limit=2, mlflow="off", progress=False
    )
    assert [one.config["method"]["params"]["k"] for one in swept] == [1, 3]
    assert list(swept.table["method"]) == ["echo k=1", "echo k=3"]


class Whole(Echo):
    """A method that is no file's."""

    summary = "says the whole question"

    def answer(self, question: Question, documents, indexes: Indexes, tools: Tools) -> Answer:
        return Answer(question.text)


def test_a_class_that_is_called_like_a_preset_is_refused() -> None:
    with pytest.raises(
        UserError, match="the class Bm25 is called like the preset configs/methods/bm25.yaml"
    ):
        harness.run(type("Bm25", (Whole,), {}), DATA, limit=1, mlflow="off", progress=False)


def length(prediction: str, references) -> float:
    return min(1.0, len(prediction) / 1000)


def test_a_class_rows_and_a_function_are_taken_as_they_are() -> None:
    rows = musique_rows(3)
    scorers = {"dataset.scorers": ["musique.answer_f1", length]}
    whole = harness.run(Whole, "musique", data=rows, mlflow="off", progress=False, set=scorers)
    assert isinstance(whole, harness.Run)
    assert whole.config["method"]["implementation"] == "tests.test_api:Whole"
    assert list(whole.records["prediction"]) == [row["question"] for row in rows]
    assert list(whole.records["tests.test_api:length"]) == [
        len(row["question"]) / 1000 for row in rows
    ]
    again = harness.run(Whole, "musique", data=rows[:2], mlflow="off", progress=False)
    assert again.summary["n_total"] == 2
    assert again.folder != whole.folder


def test_row_objects_need_no_data_set_and_no_format(here) -> None:
    rows = [
        Row("a", "Who?", (("Case", "Ann did it."), ("", "Bob saw.")), ("Ann",), supporting=(0,)),
        Row("b", "Where?", (("Case", "Ann did it."), ("", "Bob saw.")), ("Rome",)),
    ]
    one = harness.run("echo", data=rows, mlflow="off", progress=False)
    assert isinstance(one, harness.Run)
    assert list(one.records["question"]) == ["Who?", "Where?"]
    assert one.config["dataset"]["name"] == "rows"
    named = harness.run("echo", "musique", data=rows, mlflow="off", progress=False)
    assert named.config["dataset"]["scorers"][1] == "musique.answer_em"
    wrong = [Row("a", "Who?", (("", "Ann."),), ("Ann",), supporting=(3,))]
    with pytest.raises(UserError, match="supporting.*should be numbers from 0 to 0"):
        harness.run("echo", data=wrong, mlflow="off", progress=False)


def test_a_folder_and_questions_are_taken_as_the_command_takes_them(tmp_path) -> None:
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki/office.md").write_text("The office is in Turin.")
    (tmp_path / "q.jsonl").write_text('{"id": "a", "question": "Where?", "answer": "Turin"}\n')
    asked = {"documents": tmp_path / "wiki", "mlflow": "off", "progress": False}
    one = harness.run("echo", questions=tmp_path / "q.jsonl", **asked)
    assert isinstance(one, harness.Run)
    assert (one.config["dataset"]["name"], one.summary["n_total"]) == ("wiki", 1)
    rows = [{"id": "a", "question": "Where?", "answer": "Turin"}]
    assert harness.run("echo", questions=rows, **asked).folder == one.folder
    with pytest.raises(UserError, match="--documents DIR and --questions FILE go together"):
        harness.run("echo", DATA, questions=rows, **asked)


def test_columns_of_a_file_of_questions_are_named_as_on_the_command_line(tmp_path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages/a.txt").write_text("The tower is 30 m high.")
    (tmp_path / "q.csv").write_text("input,expected\nHow high?,30 m\n")
    folder = {"documents": str(tmp_path / "pages"), "questions": str(tmp_path / "q.csv")}
    options = {**folder, "mlflow": "off", "progress": False}
    asked = harness.run("echo", columns="question=input,answer=expected", **options)
    assert asked.stored.records[0].gold["answers"] == ["30 m"]


def test_the_search_of_a_question_is_told() -> None:
    echo = run()
    shown = echo.trace(echo.records["question_id"][0])
    assert "stopped    said it" in shown
    with pytest.raises(UserError, match="unknown question 'nobody'"):
        echo.trace("nobody")


def test_the_front_is_drawn(tmp_path) -> None:
    two, short = ["bm25", "closed-book"], {"dataset.tokens": 300}
    runs = harness.run(two, DATA, limit=2, model="random", mlflow="off", progress=False, set=short)
    assert runs.plot().startswith(b"<?xml")
    assert runs.plot(tmp_path / "front.pdf") == (tmp_path / "front.pdf").read_bytes()
    assert (tmp_path / "front.pdf").read_bytes().startswith(b"%PDF")
    with pytest.raises(UserError, match=r"should end in \.svg, \.pdf, \.png"):
        runs.plot("front.jpg")
    with pytest.raises(UserError, match="no run has both a score and known FLOPs"):
        run().plot()


def test_repeats_are_joined_and_their_spread_is_named(here) -> None:
    runs = harness.run("dice", DATA, limit=4, seed=3, repeat=3, mlflow="off", progress=False)
    assert [one.config["seed"] for one in runs] == [3, 4, 5]
    means = [one.records["rouge_score.rougeL"].mean() for one in runs]
    assert len({*means}) > 1, "the seeds must differ for this test"
    (row,) = runs.averaged.to_dict("records")
    assert row["rouge_score.rougeL"] == pytest.approx(statistics.fmean(means))
    assert (row["method"], row["n"]) == ("dice", 4)
    spread = f"rouge_score.rougeL {100 * statistics.stdev(means):.2f}"
    assert any(
        note.startswith("mean of 3 repeats (seeds 3, 4, 5); ") and spread in note
        for note in row["notes"]
    )
    printed = here("report", "--average-seeds")
    assert spread in " ".join(printed.stdout.split())
    assert printed.stdout.count("dice") == 1
    shutil.rmtree(runs[0].folder)
    shutil.rmtree(runs[1].folder)
    assert (
        "no two runs differ in their seed alone"
        in here("compare", "results", "--average-seeds").stderr
    )
    with pytest.raises(UserError, match="the seed is given by --repeat and by --sweep or --set"):
        harness.run("dice", DATA, repeat=2, sweep={"seed": [1, 2]})


def test_a_judge(tmp_path) -> None:
    runs = harness.Runs([run()])
    script = tmp_path / "judge.yaml"
    script.write_text("replies: [{reply: 'yes'}]\n")
    agreement = harness.judge(
        *runs, model="scripted", set={"model.script": str(script)}, name="yes"
    )
    assert list(agreement["a"]) == ["judge.yes"]
    judged = harness.load_run(runs[0].folder)
    assert set(judged.records["judge.yes"]) == {1.0}


def test_recorded_stops_go_to_the_methods_that_have_them() -> None:
    with pytest.raises(UserError, match="--record-stops does not apply to echo"):
        run(record_stops=2)


def test_a_limit_stops_a_run_and_a_higher_one_goes_on() -> None:
    with pytest.raises(LimitReached, match="--max-hours"):
        run(max_hours=0.00001, set={"method.pause": 0.1})
    assert run(max_hours=1, set={"method.pause": 0.1}).summary["n_total"] == 2
    with pytest.raises(UserError, match="--price-per-gpu-hour P"):
        run(max_money=1)


def test_a_field_of_a_request_is_an_option_of_the_command(here) -> None:
    shown = here("run", "--help").stdout
    for each in fields(harness.RunRequest):
        assert f"--{each.name.replace('_', '-')}" in shown


def test_type_checkers_know_the_fields_of_a_request_with_their_types() -> None:
    of_request = get_type_hints(harness.RunRequest)
    keywords = get_type_hints(RunArguments)
    wanted = of_request.keys() - {"method", "dataset"}
    given = keywords.keys() - {"progress"}
    assert not wanted - given, f"RunArguments (harness/api/run_arguments.py) lacks {wanted - given}"
    assert not given - wanted, f"RunRequest has no {given - wanted}"
    for name in keywords.keys() - {"progress"}:
        assert _members(of_request[name]) - {NoneType} <= _members(keywords[name])


def _members(hint: object) -> set[object]:
    """The types of a union; of another type, itself."""
    return set(get_args(hint)) if isinstance(hint, UnionType) else {hint}


def test_an_option_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(TypeError, match="limt"):
        harness.run(method="echo", dataset=DATA, limt=2)


def test_the_package_names_what_it_has() -> None:
    assert set(harness.__all__) <= set(dir(harness))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = harness.nothing
