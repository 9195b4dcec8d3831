"""Suites: their own settings, below all that is said on the command line, and every mistake in
their files."""

import pytest

from harness.cli import validate
from harness.config import suites
from harness.config.layers import Choices
from harness.config.resolve import Settings, resolve
from harness.engine.expand_command import command_runs
from harness.engine.plan_runs import plan_runs
from harness.errors import ConfigError, UnknownName, UserError
from tests.cli.conftest import configs, environment, here

__all__ = ["configs", "environment", "here"]

CHECK = validate.check_file
LISTS = "methods: [echo]\ndatasets: [pocket/musique]\n"
WHOLE = LISTS + "profile: tiny\nset: [method.k=5, dataset.tokens=400, model.window=900]\nlimit: 4\n"


@pytest.fixture
def own(configs, tmp_path, monkeypatch: pytest.MonkeyPatch):
    """The made-up presets, a suite with settings, and two files that say more."""
    monkeypatch.setenv("HARNESS_CONFIGS", str(configs))
    monkeypatch.chdir(tmp_path)
    (configs / "suites" / "whole.yaml").write_text(WHOLE)
    (configs / "profiles" / "other.yaml").write_text(
        "methods: {echo: {k: 6}}\nmodel: {window: 800}\n"
    )
    (tmp_path / "file.yaml").write_text("profile: other\nmethod: {params: {k: 7}}\n")
    return configs


def get(**more) -> Settings:
    suite = suites.read_suite("whole")
    return resolve(Choices(method="echo", dataset="pocket/musique", suite=suite, **more))


def test_a_suites_settings_are_its_own_origin(own) -> None:
    made = get()
    assert (made.config.method.params, made.config.limit) == (
        {"word": "tiny", "rate": 0.25, "k": 5},
        4,
    )
    assert (made.config.profile, made.config.model.window) == ("tiny", 900)
    assert made.config.dataset.options["tokens"] == 400
    origins = {
        made.origins[k] for k in ("method.params.k", "limit", "profile", "dataset.options.tokens")
    }
    assert origins == {"suite whole"}
    assert made.origins["method.params.word"] == "profile tiny"


@pytest.mark.parametrize(
    ("more", "k", "window", "limit", "profile"),
    [
        ({}, 5, 900, 4, "tiny"),
        ({"profile": "other"}, 6, 800, 4, "other"),
        ({"files": ("file.yaml",)}, 7, 800, 4, "other"),
        ({"files": ("file.yaml",), "profile": "tiny"}, 7, 900, 2, "tiny"),
        ({"sets": {"method.k": 8}, "limit": 1}, 8, 900, 1, "tiny"),
        ({"profile": "other", "sets": {"model.window": 700, "limit": 3}}, 6, 700, 3, "other"),
    ],
    ids=str,
)
def test_what_is_said_on_the_command_line_wins(more, k, window, limit, profile, own):
    config = get(**more).config
    assert (config.method.params["k"], config.model.window) == (k, window)
    assert (config.limit, config.profile) == (limit, profile)


def test_a_suite_may_extend_another_and_says_no_more_than_its_lists(own) -> None:
    (own / "suites" / "next.yaml").write_text("extends: whole\nset: [method.k=1]\nlimit: 9\n")
    found = suites.read_suite("NEXT")
    assert (found.name, found.profile, found.sets, found.limit) == (
        "next",
        "tiny",
        {"method.k": 1},
        9,
    )
    plain = suites.read_suite("pair")
    assert (plain.profile, plain.sets, plain.limit) == (None, {}, None)
    with pytest.raises(UnknownName, match="Did you mean 'whole'"):
        suites.read_suite("whol")


def test_a_row_of_a_suite_may_have_parameters_of_its_own(own) -> None:
    rows = "methods: [echo, echo-loud: {k: 3, word: two}]\ndatasets: [pocket/musique]\nset: [method.word=set]\n"
    (own / "suites" / "rows.yaml").write_text(rows)
    suite = suites.read_suite("rows")
    assert suite.methods == {"echo": {}, "echo-loud": {"k": 3, "word": "two"}}
    loud, echo = (
        resolve(Choices(method=m, dataset="pocket/musique", suite=suite))
        for m in ("echo-loud", "echo")
    )
    assert loud.config.method.params == {"k": 3, "word": "set", "mode": "loud"}
    assert loud.origins["method.params.k"] == "suite rows"
    assert echo.config.method.params == {"word": "set"}


MISTAKES: list[tuple[str, list[str]]] = [
    ("methods: [echo]\n", ["suites/bad.yaml: datasets is missing; give it a value"]),
    (
        LISTS.replace("echo", "echo: 3"),
        ["methods.echo=3 ($HARNESS_CONFIGS/suites/bad.yaml): should be a valid dictionary"],
    ),
    (
        LISTS.replace("echo", "echo: {kk: 1}"),
        ["unknown key 'method.kk' (suite bad). Did you mean 'k'"],
    ),
    (LISTS.replace("echo", "ecko: {k: 1}"), ["unknown method 'ecko'. Did you mean 'echo'"]),
    (
        LISTS + "profle: tiny\n",
        ["unknown key 'profle' ($HARNESS_CONFIGS/suites/bad.yaml). Did you mean 'profile'?"],
    ),
    (
        LISTS + "profile: [tiny]\n",
        ["profile=['tiny'] ($HARNESS_CONFIGS/suites/bad.yaml): should be a valid string"],
    ),
    (LISTS + "set: {method.k: 3}\n", ["bad.yaml): should be a list of KEY=VALUE, as after --set"]),
    (LISTS + "set: [method.k]\n", ["bad.yaml): 'method.k' is no assignment; write KEY=VALUE"]),
    (
        LISTS + "set: [modl.window=3]\n",
        ["unknown key 'modl.window' (suite bad). Did you mean 'model.window'"],
    ),
    (LISTS + "set: [method.kk=3]\n", ["unknown key 'method.kk' (suite bad). Did you mean 'k'"]),
    (LISTS + "set: [method.k=many]\n", ["method.k='many' (suite bad): should be a valid integer"]),
    (LISTS + "set: [profile=tiny]\n", ["'profile' is chosen with --profile, not with --set"]),
    (LISTS + "profile: tny\n", ["unknown profile 'tny'. Did you mean 'tiny'?"]),
    (LISTS + "limit: 0\n", ["limit=0 (suite bad): should be greater than 0"]),
    (
        "methods: [echo]\ndatasets: [musiqe]\n",
        ["unknown data set 'musiqe'. Did you mean 'musique'"],
    ),
]


@pytest.mark.parametrize(("text", "parts"), MISTAKES, ids=[parts[0][:50] for _, parts in MISTAKES])
@pytest.mark.parametrize(
    "verb", [["run", "--suite", "bad", "--mlflow", "off"], ["validate"]], ids=["run", "validate"]
)
def test_a_mistake_in_a_suite_is_found_before_anything_runs(
    text, parts, verb, own, here, tmp_path, monkeypatch
):
    (own / "suites" / "bad.yaml").write_text(text)
    # Every other configuration is checked once, in tests/cli/test_verbs.py: all of them take
    # seconds.
    monkeypatch.setattr(
        validate, "check_file", lambda kind, name: CHECK(kind, name) if name == "bad" else None
    )
    (own / "methods" / "buggy.yaml").unlink()  # a bug is no mistake of the configuration
    done = here(*verb).checked(2)
    for part in parts:
        assert part in done.stderr
    assert not (tmp_path / "results").exists()


def test_the_shipped_demo_is_small_and_runs_on_the_embedded_model() -> None:
    demo = suites.read_suite("demo")
    for method in demo.methods:
        config = resolve(Choices(method=method, dataset=demo.datasets[0], suite=demo)).config
        assert (config.profile, config.model.embedded, config.dataset.name) == (
            "pocket",
            True,
            "pocket/musique",
        )
        assert {
            "tokens": 1640,
            "questions": 8,
            "hops": [1, 2],
        }.items() <= config.dataset.options.items()


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
def table(own) -> suites.Suite:
    (own / "suites" / "table.yaml").write_text(PARTS)
    return suites.read_suite("table")


def listed(
    suite: suites.Suite, methods: list[str], datasets: list[str]
) -> list[tuple[object, ...]]:
    made = command_runs(Choices(suite=suite), methods, datasets, {}, lambda line: None)
    return [(r.method, str(r.dataset).removeprefix("pocket/"), r.model, resolve(r).config.method.params.get("k"))
            for r in made]  # fmt: skip


def test_a_part_has_what_it_does_not_say_from_above(table: suites.Suite) -> None:
    assert ([*table.methods], table.datasets) == (
        ["echo", "dice"],
        ["pocket/musique", "pocket/qasper", "pocket/quality"],
    )
    parts = (("random", 1), ("pocket-llama", 1), ("pocket-llama", 2))
    echo = [("echo", dataset, model, k) for model, k in parts for dataset in ("musique", "qasper")]
    assert listed(table, [], []) == [*echo, ("dice", "quality", None, 1)]
    made = command_runs(Choices(suite=table), ["echo"], ["pocket/musique"], {}, lambda line: None)
    second = {"model": "pocket-llama"}
    assert [dict(row.point) for row in made[1:]] == [second, {**second, "method.k": 2}]


def test_names_are_run_in_the_parts_that_have_them_and_others_in_all(table: suites.Suite) -> None:
    assert {row[0] for row in listed(table, ["dice"], [])} == {"dice"}
    assert [row[:2] for row in listed(table, [], ["pocket/quality"])] == [("dice", "quality")]
    assert len(listed(table, ["walks"], [])) == 7
    one = Choices(suite=table, model="random")
    assert (
        len(command_runs(one, ["echo"], ["pocket/musique"], {}, lambda line: None)) == 2
    )  # with k=1 and with k=2


def test_a_setting_of_one_data_set(table: suites.Suite) -> None:
    sets = {"datasets.pocket/musique.questions": 3, "datasets.pocket/musique.data": "x"}
    made = command_runs(Choices(suite=table, sets=sets), [], [], {}, lambda line: None)
    found = {str(row.dataset): resolve(row).dataset for row in made}
    assert [one.options["questions"] for one in found.values()] == [3, 20, 20]
    assert [one.data for one in found.values()] == ["x", None, None]
    told = r"'datasets.nq.data' is set, but 'nq' is not run; the data sets are pocket/mus"
    with pytest.raises(UserError, match=told):
        command_runs(
            Choices(suite=table, sets={"datasets.nq.data": "x"}), [], [], {}, lambda line: None
        )
    for key, told in (
        ("datasets.nq", "--set: datasets.nq must be a mapping of its settings"),
        ("datasets.hopotqa.data", "unknown data set"),
    ):
        with pytest.raises(UserError, match=told):
            resolve(Choices(method="echo", dataset="nq", sets={key: "x"}))
    with pytest.raises(
        UserError, match="--set datasets.pocket/musique.data=PATH datasets.pocket/qasper.data=PATH"
    ):
        command_runs(Choices(suite=table, data="x"), ["echo"], [], {}, lambda line: None)


def test_a_setting_that_a_data_set_does_not_have_is_named_once(table: suites.Suite) -> None:
    shared = Choices(suite=table, model="random")
    made = command_runs(shared, ["echo"], ["musique", "qasper"], {}, lambda line: None)
    with pytest.raises(ConfigError) as told:
        plan_runs(made, lambda line: None)
    assert told.value.sentences == [
        "unknown key 'dataset.tokens' (suite table). Did you mean 'max_answer_tokens'?"
    ]
    left = suites.chosen_suite("table", ["dataset.tokens"])
    assert left is not None
    assert [list(part.sets) for part in left.parts] == [["method.k"]] * 3
    assert suites.chosen_suite(None) is None
    mistake = (
        "unknown setting 'dataset.tokns' of suite table .--unset.. Did you mean 'dataset.tokens'"
    )
    with pytest.raises(UserError, match=mistake):
        suites.chosen_suite("table", ["dataset.tokns"])
    with pytest.raises(UserError, match="leaves out settings of a suite; name one with --suite"):
        suites.chosen_suite(None, ["dataset.tokens"])


@pytest.mark.parametrize("parts", ["3", "[]", "[echo]", "[{methods: echo}]", "[{metods: [echo]}]"])
def test_mistakes_in_parts_are_sentences(own, parts: str) -> None:
    (own / "suites" / "bad.yaml").write_text(
        f"methods: [echo]\ndatasets: [pocket/musique]\nparts: {parts}\n"
    )
    with pytest.raises(ConfigError, match="(must|should) be a list|unknown key 'metods'"):
        suites.read_suite("bad")


def test_raptor_is_another_name_of_one_preset():
    ours, theirs = (
        resolve(Choices(method=name, dataset="pocket/musique")).config
        for name in ("raptor", "raptor-ct")
    )
    assert ours == theirs
