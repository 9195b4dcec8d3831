"""Suites of several parts, settings of single data sets, and what of a suite is left out."""

from pathlib import Path

import pytest

from harness.config import suites
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.config.yaml_tree import Raw
from harness.engine.rows import command_rows, plan_all
from harness.errors import ConfigError, UserError
from tests.cli.conftest import configs
from tests.config.test_suites import own

__all__ = ["configs", "own"]

PARTS = """
methods: [echo]
datasets: [pocket/musique, pocket/qasper]
set: [method.k=1, dataset.tokens=400]
parts:
  - models: [random, pocket-llama]
  - models: [pocket-llama]
    set: [method.k=2]
  - methods: [dice]
    datasets: [pocket/quality]
"""


@pytest.fixture
def table(own: Path) -> suites.Suite:
    (own / "suites" / "table.yaml").write_text(PARTS)
    return suites.read_suite("table")


def listed(suite: suites.Suite, methods: list[str], datasets: list[str]) -> list[tuple[object, ...]]:
    made = command_rows(Choices(suite=suite), methods, datasets, {}, lambda line: None)
    return [(r.method, str(r.dataset).removeprefix("pocket/"), r.model, resolve(r).config.method.params.get("k"))
            for r in made]  # fmt: skip


def test_a_part_has_what_it_does_not_say_from_above(table: suites.Suite) -> None:
    assert (table.methods, table.datasets) == (["echo", "dice"], ["pocket/musique", "pocket/qasper", "pocket/quality"])
    parts = (("random", 1), ("pocket-llama", 1), ("pocket-llama", 2))
    echo = [("echo", dataset, model, k) for model, k in parts for dataset in ("musique", "qasper")]
    assert listed(table, [], []) == [*echo, ("dice", "quality", None, 1)]
    made = command_rows(Choices(suite=table), ["echo"], ["pocket/musique"], {}, lambda line: None)
    second = {"model": "pocket-llama"}
    assert [dict(row.point) for row in made[1:]] == [second, {**second, "method.k": "2"}]


def test_names_are_run_in_the_parts_that_have_them_and_others_in_all(table: suites.Suite) -> None:
    assert {row[0] for row in listed(table, ["dice"], [])} == {"dice"}
    assert [row[:2] for row in listed(table, [], ["pocket/quality"])] == [("dice", "quality")]
    assert len(listed(table, ["walks"], [])) == 7
    one = Choices(suite=table, model="random")
    assert len(command_rows(one, ["echo"], ["pocket/musique"], {}, lambda line: None)) == 2  # with k=1 and with k=2


def test_a_setting_of_one_data_set(table: suites.Suite) -> None:
    sets = {"datasets.pocket/musique.questions": Raw("3"), "datasets.pocket/musique.data": Raw("x")}
    made = command_rows(Choices(suite=table, sets=sets), [], [], {}, lambda line: None)
    found = {str(row.dataset): resolve(row).parts["dataset"] for row in made}
    assert [one.options["questions"] for one in found.values()] == [3, 20, 20]
    assert [one.data for one in found.values()] == ["x", None, None]
    told = r"'datasets.nq.data' is set, but 'nq' is not run; the data sets are pocket/mus"
    with pytest.raises(UserError, match=told):
        command_rows(Choices(suite=table, sets={"datasets.nq.data": "x"}), [], [], {}, lambda line: None)
    for key, told in (("datasets.nq", "name a data set and its key"), ("datasets.hopotqa.data", "unknown data set")):
        assert told in str(resolve(Choices(method="echo", dataset="nq", sets={key: "x"})).problems[0])
    with pytest.raises(UserError, match="--set datasets.pocket/musique.data=PATH datasets.pocket/qasper.data=PATH"):
        command_rows(Choices(suite=table, data="x"), ["echo"], [], {}, lambda line: None)


def test_a_setting_that_a_data_set_does_not_have_is_named_once(table: suites.Suite) -> None:
    shared = Choices(suite=table, model="random")
    made = command_rows(shared, ["echo"], ["musique", "qasper"], {}, lambda line: None)
    with pytest.raises(ConfigError) as told:
        plan_all(made, lambda line: None)
    sentence = "suite table sets dataset.tokens, which musique, qasper do not have; leave out: --unset dataset.tokens"
    assert told.value.sentences == [sentence]
    left = suites.chosen_suite("table", ["dataset.tokens"])
    assert left is not None
    assert [list(part.sets) for part in left.parts] == [["method.k"]] * 3
    assert suites.chosen_suite(None) is None
    mistake = "--unset dataset.tokns: suite table does not set it; did you mean 'dataset.tok"
    with pytest.raises(UserError, match=mistake):
        suites.chosen_suite("table", ["dataset.tokns"])
    with pytest.raises(UserError, match="leaves out settings of a suite; name one with --suite"):
        suites.chosen_suite(None, ["dataset.tokens"])


@pytest.mark.parametrize("parts", ["3", "[]", "[echo]", "[{methods: echo}]", "[{metods: [echo]}]"])
def test_mistakes_in_parts_are_sentences(own: Path, parts: str) -> None:
    (own / "suites" / "bad.yaml").write_text(f"methods: [echo]\ndatasets: [pocket/musique]\nparts: {parts}\n")
    with pytest.raises(ConfigError, match="must be a list|unknown key 'metods'"):
        suites.read_suite("bad")
