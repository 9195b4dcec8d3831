import json
from itertools import pairwise

import pytest
import yaml

from harness.cli.command import repeat_option_flags
from harness.cli.options import split_names
from harness.cli.table_output import aligned_columns
from harness.config import presets
from harness.config.schema import DatasetConfig
from harness.datasets import load
from tests.made_up import musique_rows, write_rows
from tests.reports.build import record, write_run

ROW = ["--dataset", "pocket/musique", "--mlflow", "off"]


@pytest.mark.parametrize(
    ("typed", "understood"),
    [
        (["--set", "a.b=1", "c=2"], ["--set", "a.b=1", "--set", "c=2"]),
        (["--set", "a=1", "--set", "b=2"], ["--set", "a=1", "--set", "b=2"]),
        (["--set=a=1", "b=2"], ["--set=a=1", "--set", "b=2"]),
        (["--set", "a=1", "pecan"], ["--set", "a=1", "pecan"]),
        (["--set", "a=1", "pecan", "b=2"], ["--set", "a=1", "pecan", "b=2"]),
        (
            ["--set", "a=1", "b=2", "--limit", "3", "c=4"],
            ["--set", "a=1", "--set", "b=2", "--limit", "3", "c=4"],
        ),
        (
            ["--sweep", "a=1,2", "b=3", "--set", "c=4"],
            ["--sweep", "a=1,2", "--sweep", "b=3", "--set", "c=4"],
        ),
        (
            ["--fail-under", "right=90", "assertions=95"],
            ["--fail-under", "right=90", "--fail-under", "assertions=95"],
        ),
        (
            ["--retriever-map", "page=doc", "text=body"],
            ["--retriever-map", "page=doc", "--retriever-map", "text=body"],
        ),
        (["show", "a=1"], ["show", "a=1"]),
        (["--set"], ["--set"]),
    ],
)
def test_several_assignments_after_one_set(typed, understood):
    assert repeat_option_flags(typed) == understood


def test_split_and_columns():
    assert split_names(["a, b", "b,c", ""]) == ["a", "b", "c"]
    assert (
        aligned_columns([("bm25", "top-5"), ("pecan", "a graph")]) == "bm25   top-5\npecan  a graph"
    )
    assert aligned_columns([("x" * 9, "1"), ("y", "2")], max_width=3) == "xxxxxxxxx  1\ny    2"
    assert aligned_columns([]) == ""


def test_list_names_every_kind(cli):
    done = cli("list", "--json").checked()
    parsed = json.loads(done.stdout)
    assert list(parsed) == [
        "methods",
        "datasets",
        "models",
        "encoders",
        "scorers",
        "suites",
        "profiles",
    ]
    assert {"pecan", "bm25", "sbert", "full-context", "closed-book", "oracle-evidence"} <= parsed[
        "methods"
    ].keys()
    assert {"musique", "hotpotqa"} <= parsed["datasets"].keys()
    assert (parsed["methods"]["echo"], parsed["suites"]["pair"]) == ("says one word", "two rows")
    assert "evidence_recall" in parsed["scorers"]
    assert all(parsed["methods"].values())


def test_list_one_kind_and_methods_by_family(here):
    assert here("list", "profile").stdout.split()[0] == "paper"
    assert "first-slice" in here("list").stdout
    assert sorted(json.loads(here("list", "methods", "--json").stdout)) == presets.names("methods")
    lines = here("list", "methods").stdout.splitlines()
    names = [line.split()[0] for line in lines if line]
    eight = ["bm25", "sbert", "hybrid", "hybrid-rerank", "full-context", "closed-book"]
    assert names[1:9] == [*eight, "raptor-ct", "a-rag"]
    assert lines[9] == ""
    methods = [name for name in names if name in presets.names("methods")]
    assert sorted(methods) == presets.names("methods")  # each once
    heads = [line for before, line in pairwise(["", *lines]) if line and not before]
    assert any(head.startswith("RAPTOR (Sarthi et al. 2024)") for head in heads)
    raptor, after = names.index("RAPTOR"), names.index("Your")
    assert names[raptor + 1 : raptor + 3] == ["raptor", "raptor-ct-topx"]
    assert "echo" in names[after:]


def test_show_explains_each_setting(here):
    parts = json.loads(here("show", "raptor-ct", "--json").stdout)
    settings = {key.removeprefix("method.params.") for key in parts["values"]}
    assert {"chunk_tokens", "layers", "top_k"} <= set(parts["parameters"]) <= settings
    assert parts["parameters"]["layers"] == "Most layers of summaries."


def test_show_gives_each_value_its_origin(here):
    parsed = json.loads(
        here("show", "ECHO", "--set", "method.k=4", "--profile", "tiny", "--json").stdout
    )
    assert parsed["values"]["method.params.k"] == 4
    plain = (
        "method.view",
        "method.encoder",
        "method.reranker",
        "method.params.mode",
        "method.params.pause",
    )
    said = {
        "method.name": "--method",
        "method.implementation": "$HARNESS_CONFIGS/methods/echo.yaml",
    }
    said |= {"method.params.k": "--set"} | dict.fromkeys(
        ("method.params.word", "method.params.rate"), "profile tiny"
    )
    assert parsed["origins"] == dict.fromkeys(plain, "default") | said
    assert parsed["prompts"] == {"echo (table 9)": "Say {word}.\nNo more."}


def test_show_as_text(here):
    lines = here("show", "echo-loud", "--set", "method.rate=1e-3").stdout.splitlines()
    assert (
        "method.mode            loud                  $HARNESS_CONFIGS/methods/echo-loud.yaml"
        in lines
    )
    assert "method.rate            0.001                 --set" in lines
    assert (
        "method.k on musique    9                     $HARNESS_CONFIGS/methods/echo-loud.yaml"
        in lines
    )
    assert lines[-3:] == ["prompt echo (table 9)", "  | Say {word}.", "  | No more."]


def test_show_a_whole_run(here):
    parsed = json.loads(
        here(
            "show", "echo-loud", "-d", "musique", "--seed", "5", "--model", "scripted", "--json"
        ).stdout
    )
    assert (parsed["values"]["method.params.k"], parsed["values"]["model.name"]) == (9, "scripted")
    assert parsed["values"]["seed"] == 5
    assert (parsed["origins"]["seed"], parsed["origins"]["model.name"]) == ("--seed", "--model")
    assert parsed["origins"]["method.params.k"].endswith("by_dataset")


@pytest.mark.parametrize(
    "name", ["musique", "default", "minilm", "paper", "first-slice", "evidence_recall"]
)
def test_show_every_kind(name, here):
    done = here("show", name, "--json").checked()
    parsed = json.loads(done.stdout)
    assert parsed["values"]
    assert parsed["origins"].keys() == parsed["values"].keys()


def test_show_asks_for_the_kind_of_a_name_that_has_two(here, configs):
    (configs / "methods" / "musique.yaml").write_text("implementation: tests.cli.fakes:Echo\n")
    done = here("show", "musique").checked(2)
    assert "'musique' is a name in methods and datasets; add --kind methods" in done.stderr
    assert here("show", "musique", "--kind", "dataset").returncode == 0


def test_diff_prints_exactly_the_keys_that_differ(here):
    assert here("show", "echo", "--diff", "echo-loud", "-d", "hotpotqa", "--json").stdout == (
        '{\n  "method.params.mode": [\n    "quiet",\n    "loud"\n  ]\n}\n'
    )
    text = here("show", "echo", "--diff", "echo-loud", "-d", "hotpotqa").stdout.splitlines()
    assert text == ["             echo   echo-loud", "method.mode  quiet  loud"]
    assert here("show", "echo", "--diff", "echo").stdout == "echo and echo do not differ\n"
    parsed = json.loads(
        here("show", "memagent", "--diff", "memagent-printed-prompt", "--json").stdout
    )
    (theirs, printed) = parsed.pop("prompt memory update")
    assert (parsed, theirs == printed) == ({}, False)


def test_validate(here):
    parsed = json.loads(
        here("validate", "-m", "echo", "-d", "pocket/musique", "--limit", "5", "--json").stdout
    )
    assert (parsed["method"], parsed["dataset"], parsed["questions"]) == (
        "echo",
        "pocket/musique",
        5,
    )
    assert "20 questions" in here("validate", "-m", "echo", "-d", "pocket/musique").stdout


@pytest.fixture
def stored(here, tmp_path):
    """A finished run of two questions."""
    done = here("run", "--method", "echo", *ROW, "--limit", "2", "--json")
    return tmp_path / str(json.loads(done.stdout)["run"])


def test_score_again_without_a_model(stored, here):
    before = {name: (stored / name).read_text() for name in ("records.jsonl", "summary.json")}
    assert here("score", str(stored)).returncode == 0
    assert {name: (stored / name).read_text() for name in before} == before
    own = yaml.safe_load((stored / "run.yaml").read_text())["config"]["dataset"]["scorers"]
    added = json.loads(here("score", str(stored), "--scorers", "flashrag.em", "--json").stdout)[
        "summary"
    ]
    assert list(added["scores"]) == [*own, "flashrag.em"]
    assert yaml.safe_load((stored / "run.yaml").read_text())["config"]["dataset"]["scorers"] == [
        *own,
        "flashrag.em",
    ]
    assert "add --scorers NAME" in here("score", str(stored), "--only").stderr
    done = here(
        "score", str(stored), "--scorers", "flashrag.em,evidence_recall", "--only", "--json"
    )
    parsed = json.loads(done.stdout)["summary"]
    assert parsed["scores"].keys() == {"flashrag.em", "evidence_recall"}
    assert parsed == json.loads((stored / "summary.json").read_text())
    assert parsed["n_asked"] == 2
    rows = [json.loads(line) for line in (stored / "records.jsonl").read_text().splitlines()]
    assert all(row["scores"].keys() == {"flashrag.em", "evidence_recall"} for row in rows)
    assert json.loads((stored / "manifest.json").read_text())["scorers"].keys() == {
        "flashrag.em",
        "evidence_recall",
    }
    own = yaml.safe_load((stored / "run.yaml").read_text())["config"]["dataset"]["scorers"]
    assert own == ["flashrag.em", "evidence_recall"]


def test_score_sees_a_changed_prediction(stored, here, tmp_path):
    config = yaml.safe_load((stored / "run.yaml").read_text())["config"]["dataset"]
    gold = {
        e.question.id: e.gold.answers[0]
        for e in load(DatasetConfig.model_validate(config)).examples
    }
    records = stored / "records.jsonl"
    rows = [json.loads(line) for line in records.read_text().splitlines()]
    rows[0]["prediction"] = gold[rows[0]["question_id"]]
    records.write_text("".join(json.dumps(row) + "\n" for row in rows))
    parsed = json.loads(
        here("score", str(stored), "--scorers", "musique.answer_em", "--json").stdout
    )["summary"]
    assert parsed["scores"]["musique.answer_em"]["mean"] == 0.5


def test_score_refuses_other_rows_and_unknown_scorers(here, tmp_path):
    write_rows(tmp_path / "rows.jsonl", musique_rows(4))
    write_rows(tmp_path / "other.jsonl", musique_rows(4)[2:])
    data = ["--dataset", "musique", "--data", "rows.jsonl", "--mlflow", "off"]
    stored = tmp_path / str(
        json.loads(here("run", "--method", "echo", *data, "--limit", "2", "--json").stdout)["run"]
    )
    before = (stored / "records.jsonl").read_text()
    done = here("score", str(stored), "--data", "other.jsonl").checked(2)
    assert "are not those that" in done.stderr
    done = here("score", str(stored), "--scorers", "flashrag.emm")
    assert (done.returncode, "Did you mean 'flashrag.em'" in done.stderr) == (2, True)
    assert (stored / "records.jsonl").read_text() == before


def test_score_against_cost_is_a_figure_of_one_data_set(here, tmp_path):
    for dataset, method in (("musique", "bm25"), ("musique", "closed-book"), ("qasper", "bm25")):
        write_run(tmp_path / "results", [record(0, 1.0)], dataset=dataset, method=method)
    both = here("report", "front")
    assert (both.returncode, both.stdout) == (2, "")
    assert "add --dataset with one of musique, qasper" in both.stderr
    rows = json.loads(here("report", "front", "-d", "musique", "--format", "json").stdout)
    assert {row["method"]: row["mark"] for row in rows}.keys() == {"bm25", "closed-book"}
    unknown = here("report", "front", "-d", "musik").stderr
    assert "unknown data set of these runs 'musik'. Did you mean 'musique'" in unknown


def test_a_wrong_path_names_the_nearest_run(stored, here, tmp_path):
    done = here("trace", "results/pocket~musique/ecko", "q").checked(2)
    assert f"the nearest: {stored.relative_to(tmp_path)}" in done.stderr
    done = here("trace", str(stored), "4hop__musique-0-00")
    assert "Did you mean '4hop__musique-0-0'" in done.stderr
