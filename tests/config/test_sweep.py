"""Sweeps: which rows a command or a suite has, and every mistake in their keys and values."""

import pytest

from harness.config import suites, sweep
from harness.config.layers import Choices, point_text
from harness.config.resolve import resolve
from harness.errors import ConfigError, UserError
from tests.cli.conftest import configs

__all__ = ["configs"]

ECHO = Choices(method="echo", dataset="pocket/musique")
OTHER = Choices(method="other", dataset="pocket/musique")
SUITE = "methods: [echo]\ndatasets: [pocket/musique]\n"


@pytest.fixture(autouse=True)
def own(configs, monkeypatch: pytest.MonkeyPatch):
    """The made-up presets, one of a method without parameters, and a suite that sweeps."""
    monkeypatch.setenv("HARNESS_CONFIGS", str(configs))
    (configs / "methods" / "other.yaml").write_text("implementation: closed-book\n")
    (configs / "suites" / "swept.yaml").write_text(
        SUITE + "models: [a, b]\nsweep: {method.k: [1, 3]}\n"
    )
    return configs


def points(rows: list[Choices]) -> list[tuple[str | None, str]]:
    return [(row.method, point_text(row.point)) for row in rows]


def test_every_combination_is_a_row_and_sets_its_values() -> None:
    axes = sweep.parse_axes(["method.k=1,3", "seed=0,1"])
    assert axes == {"method.k": (1, 3), "seed": (0, 1)}
    rows, notes = sweep.expand_runs([ECHO], axes)
    assert points(rows) == [("echo", f"k={k} seed={s}") for k in (1, 3) for s in (0, 1)]
    assert not notes
    last = resolve(rows[-1])
    assert (last.config.method.params["k"], last.config.seed) == (3, 1)
    assert last.origins["method.params.k"] == "--set"


def test_commas_within_brackets_part_nothing() -> None:
    assert sweep.parse_axes(["method.x=[1, 2],{a: [1,2]},null"]) == {
        "method.x": ([1, 2], {"a": [1, 2]}, None)
    }


def test_a_method_without_the_parameter_runs_once_and_the_user_is_told() -> None:
    rows, notes = sweep.expand_runs([ECHO, OTHER], sweep.parse_axes(["method.k=1,3"]))
    assert points(rows) == [("echo", "k=1"), ("echo", "k=3"), ("other", "")]
    assert notes == ["method.k is not swept for other: no such parameter"]


def test_rows_of_one_model_stand_together() -> None:
    rows, _ = sweep.expand_runs([ECHO, OTHER], {"model": ("a", "b")})
    assert [(row.model, row.method) for row in rows] == [
        (m, name) for m in "ab" for name in ("echo", "other")
    ]
    assert "model" not in rows[0].sets  # a name of a folder or hub id is resolved as after --model


def test_values_read_as_they_are_typed() -> None:
    assert point_text(
        {"method.k": 3, "dataset.tokens": None, "method.on": True, "method.x": [1, None]}
    ) == ("k=3 dataset.tokens=null on=true x=[1, null]")


MISTAKES: list[tuple[list[str], str]] = [
    (["method.k"], "'--sweep method.k' is no assignment"),
    (["method.k="], "--sweep method.k: name its values, for instance method.k=1,2,4"),
    (["method.k=1,,2"], "--sweep method.k: name its values"),
    (["method.k=1,3,1"], "--sweep method.k: the value 1 is given twice"),
    (["method=a,b"], "'method' cannot be swept; name several with --method A,B"),
    (["limit=1,2"], "'limit' cannot be swept"),
]


@pytest.mark.parametrize(("typed", "sentence"), MISTAKES, ids=[typed[0] for typed, _ in MISTAKES])
def test_a_mistake_in_what_is_swept_is_one_sentence(typed: list[str], sentence: str) -> None:
    with pytest.raises((UserError, ConfigError)) as error:
        sweep.parse_axes(typed)
    assert sentence in str(error.value)


@pytest.mark.parametrize(
    ("row", "axes"),
    [
        (Choices(method="echo", sets={"method.k": "2"}), {"method.k": ("1", "3")}),
        (Choices(method="echo", model="tiny"), {"model": ("a", "b")}),
    ],
)
def test_a_key_is_swept_or_set(row: Choices, axes) -> None:
    with pytest.raises(UserError, match="is swept and set to one value"):
        sweep.expand_runs([row], axes)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "sweep: {method.k: 3}\n",
            "sweep.method.k=3 ($HARNESS_CONFIGS/suites/bad.yaml): should be a valid list",
        ),
        ("sweep: {method.k: [3, 3]}\n", "suite bad method.k: the value 3 is given twice"),
        (
            "models: smollm2-135m\n",
            "models='smollm2-135m' ($HARNESS_CONFIGS/suites/bad.yaml): should be a valid list",
        ),
    ],
)
def test_a_mistake_in_a_suites_sweep_is_one_sentence(text: str, sentence: str, own) -> None:
    (own / "suites" / "bad.yaml").write_text(SUITE + text)
    with pytest.raises((UserError, ConfigError)) as error:
        sweep.suite_axes(suites.read_suite("bad"), None, {})
    assert sentence in str(error.value)
