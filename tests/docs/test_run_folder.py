"""docs/run-folder.md names every key of a real run's files, and no key that does not exist."""

import dataclasses
import json
import re

import pytest

import harness
from harness.cli.main import main
from harness.config.schema import (
    SAMPLING,
    DatasetConfig,
    EncoderConfig,
    MethodChoice,
    ModelConfig,
    RunConfig,
)
from harness.cost.usage import PhaseUsage
from harness.engine.manifest import with_start
from harness.storage.manifest_file import RunManifest
from harness.storage.record_texts import MAX_INLINE_CHARACTERS
from harness.storage.records import RECORD_KEYS
from harness.storage.run_folder import read_run
from harness.types import Gold, Shown, Step, Support
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "run-folder.md").read_text(encoding="utf-8")
# Graph, probes and recorded stops of PECAN without a model: two Yes, the second one behind the
# run's own stop.
SCRIPT = """
replies:
  - {when: "Summary the following", reply: "* Ann built the mill.\\n* Ann was born in Kelford."}
  - {reply: Kelford}
probes: [{p: {"Yes": 0.6, "No": 0.4}}]
attention: []
window: 8192
"""


def section(anchor):
    """The text from an anchor to the next one."""
    return PAGE.partition(f'<a id="{anchor}"></a>')[2].partition('<a id="')[0]


def documented(anchor):
    """The names that a section's lists explain."""
    keys = re.findall(r"^- (`[^:\n]*`):", section(anchor), re.M)
    return {name for key in keys for name in re.findall(r"`([\w-]+)`", key)}


def described(anchor):
    """All names that a section has in backticks."""
    return set(re.findall(r"`([\w-]+)`", section(anchor)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run with an index, a search, probes, recorded stops and a question that fails to be scored
    as a number."""
    here = tmp_path_factory.mktemp("run")
    (here / "replies.yaml").write_text(SCRIPT, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_HOME", str(here / "home"))
        patch.chdir(here)
        settings = {
            "model.script": "replies.yaml",
            "dataset.tokens": 300,
            "dataset.scorers": ["longbench.qa_f1_score", "hf_bleu.bleu4", "evidence_recall"],
            "dataset.answer_prefix": "So the final answer is:",
            "method.record_stops": 2,
            "keep_prompts": True,
        }
        result = harness.run(
            "pecan",
            "pocket/musique",
            limit=2,
            model="scripted",
            out=here / "results",
            mlflow="off",
            set=settings,
        )
        with pytest.raises(SystemExit, match="0"):
            main(
                [
                    "judge",
                    str(result.folder),
                    "--model",
                    "scripted",
                    "--set",
                    "model.script=replies.yaml",
                ]
            )
        yield result.folder


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def fields(kind):
    return {field.name for field in dataclasses.fields(kind)}


def test_records(folder):
    rows = lines(folder / "records.jsonl")
    kept = {key for row in rows for key in row["notes"]}
    assert {"seconds", "answer_prefix", "counts", "judges", "flags"} <= kept
    assert set(rows[0]) == set(RECORD_KEYS)
    assert documented("records") - kept - {
        "joined",
        "view",
        "scored",
        "not_finite",
        "failed_assertions",
        "answer_schema",
        "earlier",
        "uncorrected",
    } == set(RECORD_KEYS)
    assert kept <= documented("records")
    steps = [step for row in rows for step in row["steps"]]
    assert {step["action"] for step in steps} >= {"start", "study"}
    assert set(steps[0]) == fields(Step) == documented("steps")
    assert fields(Shown) | {"text_sha256"} == documented("shown")
    assert set(rows[0]["gold"]) == fields(Gold) <= described("records")
    assert set(rows[0]["gold"]["supporting"][0]) == fields(Support) <= described("records")


def test_texts(folder):
    kept = [json.loads(line) for line in (folder / "texts.jsonl").read_bytes().splitlines()]
    assert set(kept[0]) == documented("texts")
    assert all(len(line["text"]) > MAX_INLINE_CHARACTERS for line in kept)
    assert f"more than {MAX_INLINE_CHARACTERS} characters" in PAGE


def test_requests(folder):
    kept = [json.loads(line) for line in (folder / "requests.jsonl").read_bytes().splitlines()]
    assert {key for row in kept for key in row} == documented("requests") | {"document_id", "key"}
    assert {row["kind"] for row in kept} == {"write", "probe"} <= described("requests")


def test_usage(folder):
    known = {
        key
        for row in lines(folder / "records.jsonl")
        for phase in row["usage"].values()
        for key in phase
    }
    assert {"probes", "flops", "encoder_requests"} <= known
    assert known <= documented("usage") == set(PhaseUsage.__annotations__)


def test_documents_and_summary(folder):
    assert documented("documents") == set(lines(folder / "documents.jsonl")[0]) | {"question_id"}
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert documented("summary") == set(summary) | {
        "texts_cut",
        "stopped_early",
        "n_left_out",
        "n_not_parsed",
        "n_not_asked",
        "replies",
    }
    inner = {*summary["index"], *summary["scores"]["evidence_recall"]}
    assert inner <= described("summary")


def test_manifest(folder):
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert documented("manifest") == set(manifest) | {
        "servers",
        "shapes",
        "amounts",
        "code",
        "corpus",
        "first_prompts",
        "floor",
        "imported",
    }
    assert documented("judges") == set(manifest["judges"]["judge.scripted"]) | {"server"}
    assert set(manifest["dataset"]) <= described("manifest")
    typed = RunManifest.from_json(manifest)
    later = with_start(typed, typed.with_values(python="another"), ["harness"])
    changed = later.last_start.to_json()
    assert set(changed) - {"changed"} == set(manifest["starts"][0])
    assert set(changed) <= described("manifest")


def test_run_yaml(folder):
    config = read_run(folder).config.to_json()
    names = described("run-yaml")
    assert documented("run-yaml") >= set(RunConfig.model_fields) >= set(config)
    for kind in (MethodChoice, DatasetConfig, ModelConfig, EncoderConfig):
        assert set(kind.model_fields) <= names, kind.__name__
    assert documented("run-yaml") <= set(RunConfig.model_fields) | set(ModelConfig.model_fields)
    assert set(config["model"]) <= set(ModelConfig.model_fields) - set(SAMPLING)  # none is set


def test_files(folder):
    tree = PAGE.partition("\n\n")[2].partition("`/` in")[0]
    named = set(re.findall(r"^      (\S+)  ", tree, re.M))
    assert {path.name for path in folder.iterdir()} == named - {"answered.jsonl"}
