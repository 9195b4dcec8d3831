"""Where the user's home folder is written ~, where ~ is read, and what is left alone."""

import json
from dataclasses import replace

import pytest
import yaml

from harness.config.layers import Choices, read_layers
from harness.config.schema import DatasetConfig, EncoderConfig, ModelConfig
from harness.config.yaml_tree import dataset_of_run
from harness.errors import UserError
from harness.storage import paths
from harness.storage.index_cache import cache_root
from harness.storage.paths import local_folder
from harness.storage.run_folder import read_run
from harness.storage.run_store import RunStore
from tests.engine import fakes
from tests.engine.fakes import go, make_plan
from tests.reports.build import stored_config


@pytest.fixture(autouse=True)
def _home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")


TEXTS = [
    ("without_home", "/home/ann/x", "~/x"),
    ("without_home", "/home/ann", "~"),
    ("without_home", "/home/anna/x", "/home/anna/x"),
    ("without_home", "/data/home/ann/x", "/data/home/ann/x"),
    ("without_home", "see /home/ann/x", "see /home/ann/x"),
    ("without_home", "sqlite:////home/ann/x", "sqlite:////home/ann/x"),
    ("without_home", {"a": ["/home/ann/x", 3, None]}, {"a": ["~/x", 3, None]}),
    ("without_home", ("/home/ann/x",), ["~/x"]),
    ("sentence_without_home", "no file '/home/ann/x', nor /home/ann/y", "no file '~/x', nor ~/y"),
    ("sentence_without_home", "/home/ann/x: gone", "~/x: gone"),
    (
        "sentence_without_home",
        "at /data/home/ann/x and ../home/ann/x",
        "at /data/home/ann/x and ../home/ann/x",
    ),
    ("sentence_without_home", "/home/anna/x", "/home/anna/x"),
    ("command_without_home", "/home/ann/x", "~/x"),
    ("command_without_home", "--data=/home/ann/x", "--data=~/x"),
    ("command_without_home", "model.source=/home/ann", "model.source=~"),
    ("command_without_home", "sqlite:////home/ann/x.db", "sqlite:///~/x.db"),
    ("command_without_home", "--mlflow=sqlite:////home/ann/x.db", "--mlflow=sqlite:///~/x.db"),
    ("command_without_home", "/data/home/ann/x", "/data/home/ann/x"),
    ("command_without_home", "say /home/ann/x", "say /home/ann/x"),
]


@pytest.mark.parametrize(("function", "text", "without"), TEXTS)
def test_the_home_folder_in_values_sentences_and_words_of_a_command(function, text, without):
    if function == "command_without_home":
        text, without = [text], [without]
    assert getattr(paths, function)(text) == without


@pytest.mark.parametrize(
    "value", ["/home/ann/x", {"a": ["/home/ann/x", 3]}, "~x", "/data/home/ann/x", "a ~/x"]
)
def test_with_home_is_the_way_back(value):
    assert paths.with_home(paths.without_home(value)) == value


@pytest.mark.parametrize("home", ["/", "//"])
def test_a_home_that_is_the_root_is_no_persons_folder(home, monkeypatch):
    monkeypatch.setenv("HOME", home)
    assert paths.without_home("/x") == "/x"
    assert paths.sentence_without_home("in /x") == "in /x"
    assert paths.command_without_home(["/x"]) == ["/x"]


def test_a_configuration_reads_every_place_from_the_home_folder():
    places = {
        "source": "~/m",
        "tokenizer": "~/t",
        "template": "~/t.jinja",
        "script": "~/s",
        "adapters": {"a": "~/a"},
    }
    read = ModelConfig.model_validate({"name": "m", **places}).model_dump()
    assert {name: read[name] for name in places} == json.loads(
        json.dumps(places).replace("~", "/home/ann")
    )
    assert EncoderConfig(name="e", source="~/e", query_source="~/q").query_source == "/home/ann/q"
    texts = {"data": "~/d.jsonl", "instruction": "~/is a home"}
    data = DatasetConfig(name="d", format="d", max_answer_tokens=1, scorers=("x",), **texts)
    assert (data.data, data.instruction) == ("/home/ann/d.jsonl", "~/is a home")
    assert ModelConfig(name="m", source="owner/name").source == "owner/name"


def test_no_file_of_a_run_folder_names_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("harness.llm.backend.load_model", fakes.FakeModel)

    def lost(text):
        raise FileNotFoundError(2, "No such file or directory", "/home/ann/index.bin")

    monkeypatch.setattr(fakes, "trouble", lost)
    plan = make_plan()
    dataset = plan.config.dataset.model_copy(update={"data": "/home/ann/d.jsonl"})
    config = plan.config.model_copy(update={"dataset": dataset})
    plan = replace(
        plan, config=config, origins={"dataset.data": "/home/ann/my.yaml", "seed": "default"}
    )
    result = go(plan, tmp_path / "out", command=["harness", "run", "--data", "/home/ann/d.jsonl"])
    assert result.failed == 6
    for path in result.folder.iterdir():
        assert "/home/ann" not in path.read_text(), path.name
    stored = read_run(result.folder)
    assert stored.config.dataset.data == "~/d.jsonl"
    assert stored.origins["dataset.data"] == "~/my.yaml"
    assert "'~/index.bin'" in stored.records[0].error["message"]
    assert dataset_of_run(stored.config, "run").data == "/home/ann/d.jsonl"


def test_a_stored_run_is_a_config_file_whose_method_finds_its_folder_again(tmp_path):
    params = {"source": "/home/ann/model"}
    with RunStore.open(tmp_path / "d" / "run", "f", print) as store:
        store.write_run_yaml(stored_config(method={"name": "x", "params": params}), {})
    stored = tmp_path / "d" / "run" / "run.yaml"
    assert yaml.safe_load(stored.read_text())["config"]["method"]["params"] == {"source": "~/model"}
    ((_, values),) = read_layers(Choices(files=(str(stored),)), [])
    assert values["method"]["params"] == params


def test_an_address_is_no_folder_for_runs_or_indexes(monkeypatch):
    with pytest.raises(
        UserError, match="s3://bucket/x is no folder of this machine; copy runs .* aws s3 sync"
    ):
        local_folder("s3://bucket/x")
    monkeypatch.setenv("HARNESS_CACHE", "s3://bucket/x")
    with pytest.raises(UserError, match="s3://bucket/x is no folder"):
        cache_root()
