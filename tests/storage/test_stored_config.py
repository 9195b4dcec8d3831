"""The settings of a stored run: read whatever version wrote them, written as they were read."""

import json
from pathlib import Path

import pytest

from harness.config.schema import RunConfig
from harness.cost.prices import money_spent
from harness.storage.stored_config import StoredConfig
from harness.storage.yaml_text import parse_yaml
from tests.engine.fakes import make_plan
from tests.reports.build import stored_config

OLD = sorted((Path(__file__).parent / "old_runs").rglob("run.yaml"))
PRICE = {"input": 2.0, "output": 4.0, "cached": 0.5, "batch": 0.5}
BILLED = {"input": 1e6, "cached": 1e6, "output": 1e6}
SERVED = {"name": "e", "base_url": "http://localhost:1/v1"}


def written(config):
    return json.dumps(config.to_json())


@pytest.mark.parametrize("file", OLD, ids=lambda path: path.parent.name)
def test_settings_of_older_runs_are_written_as_they_were_read(file):
    values = parse_yaml(file.read_bytes())["config"]
    assert written(StoredConfig.from_json(values)) == json.dumps(values)


def test_settings_that_no_reader_uses_keep_their_place():
    values = {"of_tomorrow": [1], **stored_config().to_json(), "and": {"more": None}}
    assert written(StoredConfig.from_json(values)) == json.dumps(values)


def test_a_changed_data_set_keeps_the_order_and_every_other_setting():
    config = stored_config()
    changed = config.with_dataset(scorers=["em"], data="rows.jsonl")
    expected = config.to_json()
    expected["dataset"] = {**expected["dataset"], "scorers": ["em"], "data": "rows.jsonl"}
    assert written(changed) == json.dumps(expected)
    assert config.dataset.data is None


def test_a_plan_is_stored_with_every_setting():
    plan = make_plan()
    dumped = plan.config.model_dump(mode="json")
    assert written(plan.config.stored()) == json.dumps(dumped)


def test_every_setting_that_readers_know_is_one_of_a_run():
    def known(stored, settings):
        return set(stored.model_fields) <= set(settings.model_fields)

    assert known(StoredConfig, RunConfig)
    for name in ("method", "dataset", "model"):
        stored = StoredConfig.model_fields[name].annotation
        assert known(stored, RunConfig.model_fields[name].annotation), name


@pytest.mark.parametrize(
    ("settings", "role", "expected"),
    [
        ({"model": {"name": "m", "price": PRICE}}, "reader", 6.5),
        ({"model": {"name": "m", "price": {"input": 2.0, "output": 4.0}}}, "reader", 8.0),
        ({"model": {"name": "m", "price": PRICE, "batch": True}}, "reader", 3.25),
        ({"model": {"name": "m", "price": PRICE}}, "builder", 6.5),
        ({"roles": {"builder": {"name": "b", "price": PRICE}}}, "builder", 6.5),
        ({"roles": {"builder": {"name": "b", "price": PRICE}}}, "reader", None),
        ({}, "reader", None),
        ({}, "encoder", 0.0),
        ({"encoder": {"name": "e"}}, "encoder", 0.0),
        ({"encoder": SERVED}, "encoder", None),
        ({"reranker": {**SERVED, "price": 3.0}}, "reranker", 6.0),
    ],
)
def test_money_of_a_role_is_by_the_price_of_its_model(settings, role, expected):
    prices = stored_config(**settings).prices
    assert money_spent({"billed": {role: BILLED}}, prices) == expected
