"""What a run of a real model says when its settings are not those of the papers: texts cut, a
reader that compresses."""

import json
from pathlib import Path

import pytest

import harness
from harness.config import presets
from harness.config.layers import Choices
from harness.config.registry import method_class
from harness.engine.plan import PlannedRun, plan_choices
from harness.storage.run_folder import read_run
from reports.columns import sections
from reports.main_table import frame
from tests.docs.pages import ROOT
from tests.reports.build import record, usage, write_run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HARNESS_HOME", "HARNESS_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / name))


def planned(method: str, **more) -> PlannedRun:
    """A plan with a model that is not an embedded one."""
    sets = {"model.embedded": False, **more.pop("sets", {})}
    return plan_choices(
        Choices(method=method, dataset="pocket/musique", model="random", sets=sets, **more)
    )


@pytest.mark.parametrize(
    ("method", "sets", "warned"),
    [
        ("sbert", {}, True),
        ("pecan", {}, True),
        ("sbert", {"method.chunk_tokens": 256}, False),
        ("raptor-ct", {}, False),  # chunks of 100 tokens
        ("recomp", {"encoder": "minilm"}, False),  # sentences
        ("sbert", {"encoder.max_length": 512}, False),
        ("bm25", {}, False),
    ],
)
def test_the_plan_warns_of_chunks_that_the_encoder_cuts(method: str, sets, warned: bool) -> None:
    found = [w for w in planned(method, sets=sets).warnings if "texts_cut" in w]
    told = "encoder minilm reads 256 tokens, and chunks have up to 300: what is longer is cut, and counted in texts_cut; --set encoder=mpnet reads 512"
    assert found == ([told] if warned else [])


@pytest.mark.parametrize(
    ("method", "more", "told"),
    [
        (
            "longllmlingua",
            {},
            "the papers' setting (--profile paper) has phi-2 for it: --set roles.compressor=phi-2",
        ),
        ("selective-context", {}, "has gpt2 for it: --set roles.compressor=gpt2"),
        ("llmlingua", {}, "name a smaller model for it: --set roles.compressor=NAME"),
        ("longllmlingua", {"sets": {"roles.compressor": "pocket-llama"}}, None),
        ("longllmlingua", {"sets": {"model.embedded": True}}, None),
        ("bm25", {}, None),
    ],
)
def test_the_plan_warns_of_a_reader_that_compresses(method: str, more, told: str | None) -> None:
    found = [w for w in planned(method, **more).warnings if "compresses with the reader" in w]
    assert len(found) == (told is not None)
    if told is not None:
        assert found[0].startswith(f"'{method}' compresses with the reader 'random-llama' itself; ")
        assert found[0].endswith(told)


def test_auto_is_in_no_identity_and_changes_no_hash() -> None:
    plans = [
        planned("bm25", sets={"model.dtype": dtype}) for dtype in ("auto", "float32", "bfloat16")
    ]
    assert [plan.identities["reader"]["dtype"] for plan in plans] == [
        "float32",
        "float32",
        "bfloat16",
    ]
    assert plans[0].hash8 == plans[1].hash8 != plans[2].hash8


def test_a_run_says_which_share_of_its_texts_was_cut(tmp_path: Path, command) -> None:
    chosen = [
        "--dataset",
        "pocket/musique",
        "--limit",
        "1",
        "--out",
        str(tmp_path / "results"),
        "--mlflow",
        "off",
    ]
    code, out, err = command(
        "run", "--method", "sbert", *chosen, "--set", "dataset.tokens=1500", "--json"
    )
    assert code == 0
    told = json.loads(out.splitlines()[-1])
    counts = told["summary"]["texts_cut"]
    run = read_run(Path(told["run"]))
    indexed, asked = run.index_lines[0].usage["index"], run.records[0].usage["search"]
    assert counts == {"texts": indexed["texts"] + asked["texts"], "cut": indexed["texts_cut"]}
    assert 0 < counts["cut"] < counts["texts"]
    share = f"{100 * counts['cut'] / counts['texts']:.0f} % of {counts['texts']} texts"
    last = err.strip().splitlines()[-1]
    assert (
        last
        == f"warning: encoder minilm reads 256 tokens: {share} were cut; --set encoder=mpnet reads 512"
    )
    (row,) = frame([run]).to_dict("records")
    assert row["texts_cut"] == counts["cut"]
    assert any(
        note.startswith(f"{counts['cut']} of {counts['texts']} texts") for note in row["notes"]
    )


def test_nothing_is_said_where_nothing_was_cut(tmp_path: Path) -> None:
    sets = {"dataset.tokens": 1500, "method.chunk_tokens": 100}
    result = harness.run("sbert", "pocket/musique", limit=1, out=tmp_path, set=sets, mlflow="off")
    assert "texts_cut" not in result.summary
    (section,) = sections(frame([read_run(result.folder)]))
    assert "texts_cut" not in section.frame.columns


def test_the_column_is_there_where_any_run_of_a_table_cut_texts(tmp_path: Path) -> None:
    spent = {"answer": usage(1.0), "search": {**usage(1.0), "texts": 8, "texts_cut": 2}}
    runs = [read_run(write_run(tmp_path, [record(0, 0.5)], method="bm25"))]
    runs.append(read_run(write_run(tmp_path, [record(0, 0.5, usage=spent)], method="sbert")))
    (section,) = sections(frame(runs))
    assert dict(zip(section.frame["method"], section.frame["texts_cut"], strict=True)) == {
        "bm25": 0,
        "sbert": 2,
    }
    (note,) = [n for n in section.frame["notes"].iloc[1] if "texts" in n]
    assert note == "2 of 8 texts (25 %) were longer than the encoder reads, and cut"
    del spent["search"]["texts"]  # an older run kept those that were cut alone
    older = read_run(write_run(tmp_path, [record(0, 0.5, usage=spent)], method="older"))
    assert "2 texts were longer than the encoder reads, and cut" in frame([older])["notes"].iloc[0]


def test_a_preset_names_the_values_that_decide_how_much_is_read() -> None:
    deciding = {"k", "budget", "t_n", "max_trials", "target_tokens"}
    for name in (
        path.stem for path in (ROOT / "configs" / "methods").glob("*.yaml")
    ):  # none of another test's classes
        layers = [values for _, values in presets.read("methods", name)]
        target = next(
            str(values["implementation"]) for values in layers if "implementation" in values
        )
        fields = method_class(target).Config.model_fields
        wanted = {key for key in deciding & fields.keys() if fields[key].default is not None}
        params = {
            key: value for values in layers for key, value in values.get("params", {}).items()
        }
        if target == "graphrag" and params["mode"] == "global":
            wanted.remove("k")  # entities that only its local search finds
        assert wanted <= params.keys(), name
