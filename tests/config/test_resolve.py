from pathlib import Path
from typing import Any

import pytest

from harness.config import plugins, presets, registry
from harness.config.layers import Choices
from harness.config.registry import load, trust
from harness.config.resolve import Settings, resolve
from harness.config.schema import EncoderConfig, ModelConfig
from harness.config.yaml_tree import Tree, flatten, parse_assignments, parse_typed_value, read_yaml
from harness.errors import CannotRun, ConfigError, HarnessError, UnknownName, UserError

FILES = {
    "methods/base.yaml": (
        "implementation: tests.cli.fakes:Echo\nparams: {word: base, k: 1}\nby_dataset: {one: {k: "
        "5}}\n"
    ),
    "methods/child.yaml": "extends: Base\nparams: {word: child}\n",
    "methods/firm.yaml": "extends: base\nparams: {k: 2}\n",
    "datasets/one.yaml": "format: musique\ninstruction: Answer.\nmax_answer_tokens: 8\nscorers: [flashrag.em]\n",
    "datasets/two.yaml": "extends: one\nname: Two!\noptions: {a: {b: 1, c: 2}}\n",
    "models/small.yaml": "name: Small-1B\nsource: org/small\ndtype: bfloat16\nwindow: 100\n",
    "models/big.yaml": "source: org/big\n",
    "profiles/lab.yaml": (
        "model: {name: small, dtype: float16}\nmethods: {'*': {k: 7, unheard_of: 1}, base: {word: "
        "lab}}\n"
    ),
    "profiles/late.yaml": "extends: lab\nseed: 3\n",
    "methods/dense.yaml": "implementation: methods.retrieval:Dense\n",
    "methods/own.yaml": "extends: dense\nencoder: contriever\n",
    "profiles/print.yaml": "encoder: {default: mpnet}\nmethods: {dense: {k: 3, roles: {compressor: small}}}\n",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    own = tmp_path / "own"
    for name, text in FILES.items():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text(text)
    monkeypatch.setenv("HARNESS_CONFIGS", str(own))
    monkeypatch.chdir(tmp_path)
    return own


def get(method: str = "base", dataset: str = "one", **more: Any) -> Settings:
    return resolve(Choices(method=method, dataset=dataset, **more))


def test_every_role_is_deterministic_where_the_reader_is() -> None:
    roles = {"roles.builder": "small", "roles.searcher.window": 50}
    config = get(model="small", sets={"model.deterministic": True, **roles}).config
    assert [config.roles[role].deterministic for role in ("builder", "searcher")] == [True, True]
    assert not any(
        role.deterministic for role in get(model="small", sets=roles).config.roles.values()
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-3", -3),
        ("010", 10),
        ("1e-5", 1e-5),
        ("0.5", 0.5),
        ("1.", 1.0),
        (".5", 0.5),
        (".inf", float("inf")),
        ("true", True),
        ("False", False),
        *(
            (text, text)
            for text in ("yes", "off", "2024-07-26", "12:30", "1_000", "0x10", "@home", "%x", "a b")
        ),
        *((text, None) for text in ("null", "~", "")),
        ("[a, 2]", ["a", 2]),
        ("{a: 1}", {"a": 1}),
        ("'3'", "3"),
        *(
            (text, text)
            for text in (
                "Q: {question}",
                "{question}",
                "{a}\n\n{b}",
                "[INST] {a}",
                "- a",
                "a #b",
                "a\nb ",
            )
        ),
    ],
)
def test_typed_text_is_a_scalar_unless_it_begins_with_a_bracket(text: str, value: object) -> None:
    assert parse_typed_value(text) == value
    assert type(parse_typed_value(text)) is type(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: {b: 1, b: 1}\n", "line 1: the key 'b' is given twice"),
        ("1: a\n", "must hold a mapping"),
        ("? [a]\n: 1\n", "must be plain text"),
        ("a: !!python/object/apply:os.getcwd []\n", "line 1"),
    ],
)
def test_a_yaml_file_is_read_strictly(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"f\.yaml") as raised:
        read_yaml(tmp_path / "f.yaml", "f.yaml")
    assert problem in str(raised.value)


def test_files_that_are_empty_or_no_text(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert read_yaml(tmp_path / "empty.yaml") == {}
    (tmp_path / "bytes.yaml").write_bytes(b"a: \xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_yaml(tmp_path / "bytes.yaml")


def test_the_tree_merges_and_knows_the_origin_of_each_leaf() -> None:
    tree = Tree(
        [
            ("1", {"a": {"b": 1, "c": [1, 2]}, "d": 1}),
            ("2", {"a": {"c": [3]}, "d": {"e": 2}}),
            ("3", {"f": {}}),
        ]
    )
    assert tree.values == {"a": {"b": 1, "c": [3]}, "d": {"e": 2}, "f": {}}
    assert {leaf: tree.origins[leaf] for leaf in flatten(tree.values)} == {
        "a.b": "1",
        "a.c": "2",
        "d.e": "2",
        "f": "3",
    }


def test_the_users_own_folder_comes_first(folder: Path) -> None:
    (folder / "methods" / "PECAN.yaml").write_text("implementation: tests.cli.fakes:Echo\n")
    assert get("pecan").config.method.implementation == "tests.cli.fakes:Echo"
    assert "PECAN" in presets.names("methods")
    assert "pecan" not in presets.names("methods")


def test_names_of_shipped_files_do_not_collide() -> None:
    for kind in presets.PRESET_KINDS:
        files = [
            path.stem for path in (Path(__file__).parents[2] / "configs" / kind).glob("*.yaml")
        ]
        assert len(files) == len({presets.comparable_name(f) for f in files})


def test_installed_packages_can_add_methods_and_data_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    added = {
        "harness.methods": {"their-method": "tests.cli.fakes:Echo"},
        "harness.datasets": {"their-data": "tests.config.test_resolve:THEIR_DATA"},
    }
    installed = plugins.targets
    monkeypatch.setattr(plugins, "targets", lambda group: added.get(group) or installed(group))
    assert "their-method" in presets.names("methods")
    assert presets.summaries("methods")["their-method"] == "added by tests.cli.fakes:Echo"
    config = get("Their_Method", "their-data").config
    assert config.method.implementation == "tests.cli.fakes:Echo"
    assert config.dataset.instruction == "Say."


THEIR_DATA = {
    "format": "musique",
    "instruction": "Say.",
    "max_answer_tokens": 4,
    "scorers": ["flashrag.em"],
}


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("harness.method", UserError, "of the form module:name"),
        (":Method", UserError, "of the form module:name"),
        ("harness.nothing:Method", UserError, "no module 'harness.nothing'"),
        ("harness.method:Methd", UnknownName, "Did you mean 'Method'"),
        (
            "tests.needs_a_package:Thing",
            CannotRun,
            "needs the package 'no_such_package'; install it with",
        ),
    ],
)
def test_registry_load(
    target: str, error: type[Exception], message: str, tmp_path: Path, monkeypatch: Any
) -> None:
    import tests

    (tmp_path / "needs_a_package.py").write_text("import no_such_package\n")
    monkeypatch.setattr(tests, "__path__", [*tests.__path__, str(tmp_path)])
    trust(target)
    with pytest.raises(error) as raised:
        load(target)
    assert message in str(raised.value)


def test_each_layer_covers_the_one_below_it(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("method: {params: {word: file}}\nseed: 1\nlimit: 5\n")
    (tmp_path / "b.yaml").write_text("seed: 2\n")
    word = "method.params.word"
    steps: list[tuple[dict[str, Any], str, str]] = [
        ({}, "base", "$HARNESS_CONFIGS/methods/base.yaml"),
        ({"profile": "lab"}, "lab", "profile lab"),
        ({"profile": "lab", "files": ("a.yaml",)}, "file", "a.yaml"),
        ({"profile": "lab", "files": ("a.yaml",), "sets": {"method.word": "set"}}, "set", "--set"),
    ]
    for more, value, origin in steps:
        resolved = get(**more)
        assert (resolved.config.method.params["word"], resolved.origins[word]) == (value, origin)
    both = get(files=("a.yaml", "b.yaml"))
    assert (both.config.seed, both.origins["seed"]) == (2, "b.yaml")
    flag = get(files=("a.yaml", "b.yaml"), seed=9, limit=2)
    assert (flag.config.seed, flag.origins["seed"], flag.config.limit) == (9, "--seed", 2)
    assert get().origins["seed"] == "default"


def test_extends_and_by_dataset() -> None:
    child = get("child")
    assert child.config.method.params == {"word": "child", "k": 5}
    assert child.origins["method.params.k"] == "$HARNESS_CONFIGS/methods/base.yaml, by_dataset"
    assert get("child", "two").config.method.params["k"] == 1
    assert get("firm").config.method.params["k"] == 2  # said later than the base's by_dataset
    two = get(dataset="two").config.dataset
    assert (two.name, two.instruction, two.options) == ("Two!", "Answer.", {"a": {"b": 1, "c": 2}})


def test_every_leaf_of_the_config_has_an_origin() -> None:
    sets = {"roles.builder": "big", "reranker.device": "cpu", "reranker": "org/ranker"}
    resolved = get("child", "two", profile="late", sets=sets)
    missing = [
        leaf
        for leaf in flatten(resolved.config.model_dump(mode="json"))
        if leaf not in resolved.origins
    ]
    assert missing == []
    assert resolved.config.profile == "late"


def test_a_profile_speaks_to_methods_by_name_and_to_all_that_have_the_parameter() -> None:
    assert get("base", "two", profile="lab").config.method.params == {"word": "lab", "k": 7}
    assert get("child", "two", profile="lab").config.method.params == {"word": "child", "k": 7}
    # "two" is called "Two!" in tables.
    assert get(dataset="two", sets={"datasets.two.split": "mine"}).config.dataset.split == "mine"


@pytest.mark.parametrize(
    ("method", "sets", "encoder", "origin"),
    [
        ("base", {}, "mpnet", "profile print"),
        ("dense", {}, "mpnet", "profile print"),
        ("own", {}, "contriever", "methods/own.yaml"),
        ("dense", {"encoder": "e5"}, "e5", "--set"),
        ("own", {"encoder": "e5"}, "e5", "--set"),
    ],
)
def test_a_profiles_default_encoder_is_for_methods_without_one(
    folder, method, sets, encoder, origin
) -> None:
    resolved = get(method, profile="print", sets=sets)
    assert resolved.config.encoder.name == encoder
    assert resolved.origins["encoder.name"].endswith(origin)
    assert resolved.warnings == ()
    # It is the method's own from there on: a run with another one says so in its name.
    assert (
        resolved.config.method.encoder
        == {"base": None, "dense": "mpnet", "own": "contriever"}[method]
    )
    assert get("dense", sets=sets).config.method.encoder is None


def test_a_profile_gives_methods_models_for_their_roles() -> None:
    one = get("dense", profile="print").config
    assert (one.roles["compressor"].name, one.method.params["k"]) == ("Small-1B", 3)
    assert get("own", profile="print").config.roles == {}
    said = get("dense", profile="print", sets={"roles.compressor": "big"}).config
    assert said.roles["compressor"].name == "big"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("encoder: {default: [mpnet]}\n", r"unknown encoder '\['mpnet'\]'"),
        ("encoder: {default: mpnett}\n", "Did you mean 'mpnet'"),
        ("methods: {dense: {roles: phi}}\n", "a.yaml: 'roles' must be a mapping, not 'phi'"),
        ("methods: {dense: {roles: {compresor: small}}}\n", "Did you mean 'compressor'"),
    ],
)
def test_defaults_that_are_none(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(HarnessError, match=told):
        get("dense", files=("a.yaml",))


SBERT_ROWS = [
    "sbert",
    "sbert-topx",
    "pecan",
    "pecan-no-graph",
    "garlic",
    "raptor-tt",
    "raptor-ct",
    "raptor-ct-topx",
]


@pytest.mark.parametrize(
    ("method", "encoder"),
    [*((m, "mpnet") for m in SBERT_ROWS), ("dragon", "dragon"), ("contriever-top3", "contriever")],
)
def test_the_papers_profile_has_their_encoder(method: str, encoder: str) -> None:
    config = get(method, "musique", profile="paper").config
    assert config.encoder.name == encoder
    assert get(method, "musique", profile="pocket").config.encoder.name == "minilm"


def test_a_server_keeps_its_own_precision_under_the_papers_profile() -> None:
    model = get("pecan", "musique", model="gpt-3.5-turbo", profile="paper").config.model
    assert (model.dtype, model.window) == ("auto", 131072)


def test_the_papers_profile_reads_100_000_tokens_and_compresses_as_they_do() -> None:
    whole = get("full-context-100k", "narrativeqa", profile="paper").config
    assert whole.model.window >= whole.method.params["max_tokens"] + 1000
    assert (
        get("pecan", "narrativeqa", profile="paper").config.method.params.get("window", 8192)
        == 8192
    )
    for method, model, window in (
        ("longllmlingua", "phi-2", 2048),
        ("selective-context", "gpt2", 1024),
    ):
        role = get(method, "musique", profile="paper").config.roles["compressor"]
        assert (role.name, role.window, role.template) == (model, window, "none")
        assert get(method, "musique").config.roles == {}


@pytest.mark.parametrize(
    ("dataset", "model", "embedded", "small"),
    [("one", "smollm2-135m", False, True), ("pocket/musique", "pocket-llama", True, False)],
)
def test_without_a_model_the_data_set_decides(dataset, model, embedded, small, monkeypatch):
    readers = registry.targets.__wrapped__("readers")  # as in the file; see conftest.py
    monkeypatch.setitem(registry.targets("readers"), "any other", readers["any other"])
    resolved = get(dataset=dataset)
    found = resolved.config.model
    assert (found.embedded, found.small, found.adapter) == (embedded, small, None)
    assert found == get(dataset=dataset, model=model).config.model
    assert resolved.origins["model.name"] == "default"
    assert isinstance(resolved.config.encoder, EncoderConfig)


def test_a_model_by_preset_folder_or_hub_id(tmp_path: Path) -> None:
    (tmp_path / "weights" / "mine").mkdir(parents=True)
    preset = get(model="SMALL").config.model
    assert (preset.name, preset.source, preset.window) == ("Small-1B", "org/small", 100)
    whole = str(tmp_path / "weights" / "mine")
    for text, name in (("./weights/mine", "mine"), (whole, "mine"), ("org/name", "org/name")):
        model = get(model=text).config.model
        assert (model.name, model.source, model.backend) == (name, text, "hf")
    with pytest.raises(UnknownName, match="Did you mean 'small'"):
        get(model="smal")
    assert get(sets={"encoder": "org/encoder"}).config.encoder.source == "org/encoder"


def test_settings_beside_a_models_name_are_its_own_and_those_beside_a_default_hold_for_any(
    tmp_path: Path,
) -> None:
    text = "model: {name: mine, source: ./mine, tokenizer: ./tok, window: 50, dtype: float16}\n"
    (tmp_path / "a.yaml").write_text(text)
    own = get(files=("a.yaml",)).config.model
    assert (own.name, own.source, own.tokenizer, own.window) == ("mine", "./mine", "./tok", 50)
    other = get(files=("a.yaml",), model="big")
    assert other.config.model == ModelConfig(name="big", source="org/big")
    told = "a.yaml sets dtype, source, tokenizer, window of model 'mine'; not used, as 'big' was chosen"
    assert other.warnings == (told,)
    (tmp_path / "a.yaml").write_text("model: {default: small, window: 50}\n")
    made = [get(files=("a.yaml",), model=model) for model in (None, "big")]
    assert [(r.config.model.name, r.config.model.window, r.warnings) for r in made] == [
        ("Small-1B", 50, ()),
        ("big", 50, ()),
    ]
    assert made[0].origins["model.name"] == "a.yaml"


def test_a_role_is_a_preset_or_the_reader_with_changes() -> None:
    sets = {"roles.builder": "big", "roles.searcher.dtype": "float32", "model": "small"}
    config = get(sets=sets).config
    assert config.roles["builder"] == ModelConfig(name="big", source="org/big")
    assert config.roles["searcher"] == config.model.model_copy(update={"dtype": "float32"})
    mixed = get(sets={"roles.builder": "small", "roles.builder.window": 10}).config
    assert (mixed.roles["builder"].name, mixed.roles["builder"].window) == ("Small-1B", 10)


def test_text_that_looks_like_a_number_is_quoted() -> None:
    for value, text in parse_assignments(
        ["""model.revision='0012'""", "model.template_date=2024-07-26"], ""
    ).items():
        assert get(model="big", sets={value: text}).origins[value] == "--set"
    with pytest.raises(
        UserError,
        match=r"model.revision=12 \(--set\): should be a valid string; in quotes it is text",
    ):
        get(model="big", sets={"model.revision": 12})


def test_a_mapping_that_is_typed_is_merged_key_by_key() -> None:
    sets = parse_assignments(["dataset.options={a: {b: 3}}", "dataset.options.d=4"], "")
    assert get(dataset="two", sets=sets).config.dataset.options == {"a": {"b": 3, "c": 2}, "d": 4}


@pytest.mark.parametrize("text", ["extends: b\n", "extends: a\n", "extends: [a]\n"])
def test_a_preset_cannot_extend_itself(text: str, folder: Path) -> None:
    (folder / "methods" / "a.yaml").write_text(text)
    (folder / "methods" / "b.yaml").write_text("extends: a\n")
    with pytest.raises(ConfigError, match=r"extends itself|must be the name"):
        get("a")


@pytest.mark.parametrize("part", ["model", "encoder", "reranker"])
def test_a_source_of_ones_own_takes_the_place_of_the_packages_files(part: str) -> None:
    name = {"model": "pocket-llama", "encoder": "minilm", "reranker": "pocket-reranker"}[part]
    choices = Choices(
        method="bge-reranker",
        dataset="pocket/musique",
        sets={part: name, f"{part}.source": "./mine"},
    )
    found = getattr(resolve(choices).config, part)
    assert (found.source, found.package, found.package_path) == ("./mine", None, None)
