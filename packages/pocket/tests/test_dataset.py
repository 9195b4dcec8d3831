"""The data sets pocket/*: options and their refusals, seeds kept apart, official row formats, the
command line."""

import json
from pathlib import Path

import pytest
import yaml
from pocket.world.sample import FIRST_TRAINING_SEED, KINDS, sample

from harness import scorers
from harness.config import presets
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.config.schema import DatasetConfig
from harness.datasets import hotpotqa, load, musique, twowiki
from harness.datasets.formats import format_names, option_fields
from harness.datasets.rows import RowError, example_and_document
from harness.errors import ConfigError, UnknownName

ROOT = Path(__file__).resolve().parents[3]
CONFIGS = sorted((ROOT / "packages/pocket/pocket/configs/datasets/pocket").glob("*.yaml"))


def config(name="musique", split="validation", **options):
    fields = yaml.safe_load(
        (ROOT / "packages/pocket/pocket/configs/datasets/pocket" / f"{name}.yaml").read_text()
    )
    fields = {k: v for k, v in fields.items() if k != "summary"}
    merged = {**fields["options"], "tokens": 400, "questions": 6, **options}
    return DatasetConfig.model_validate({**fields, "split": split, "options": merged})


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_config_files(path):
    fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert "no benchmark" in fields.pop("summary")
    own = DatasetConfig.model_validate(fields)
    assert own.name == f"pocket/{path.stem}"
    assert own.format == "pocket"
    assert own.options["kind"] == path.stem
    assert tuple(own.options["hops"]) == KINDS[path.stem].hops
    assert scorers.problems(own.scorers) == []
    assert "evidence_recall" in own.scorers


def test_every_kind_has_a_config():
    assert [p.stem for p in CONFIGS] == sorted(KINDS)
    assert {f"pocket/{kind}" for kind in KINDS} <= set(presets.names("datasets"))
    assert "pocket" in format_names()
    assert [*option_fields("pocket")] == [
        "place",
        "distance",
        "kind",
        "tokens",
        "seed",
        "questions",
        "hops",
    ]
    assert [*option_fields("musique")] == ["files", "place", "distance"]


@pytest.mark.parametrize("kind", KINDS)
def test_load(kind):
    data = load(config(kind))
    assert len(data) == 6
    ids = [e.question.id for e in data.examples]
    assert len(set(ids)) == 6
    for example in data.examples:
        assert all(name in data.documents for name in example.question.document_ids)
        assert len(example.question.document_ids) == (8 if kind == "retrieved" else 1)
        assert (example.question.options is not None) == (kind == "quality")
        for mark in example.gold.supporting:
            assert 0 <= mark.start < mark.end <= len(data.documents[mark.document_id].text)
        sheet = scorers.score_answer(
            config(kind).scorers, example.gold.answers[0], (), example.gold
        )
        assert sheet.scores[config(kind).scorers[0]] == 1.0
    assert str(ROOT) not in data.source
    assert "seed 0" in data.source


@pytest.mark.parametrize("kind", KINDS)
def test_limit_and_fewer_questions_keep_the_first(kind):
    whole, part, fewer = (
        load(config(kind)),
        load(config(kind), limit=2),
        load(config(kind, questions=2)),
    )
    assert part.examples == whole.examples[:2] == fewer.examples
    assert part.fingerprint == whole.fingerprint != fewer.fingerprint
    assert all(part.documents[name] == whole.documents[name] for name in part.documents)
    assert load(config(kind, seed=1)).fingerprint != whole.fingerprint


PARSERS = {
    "musique": musique.parse_row,
    "hotpotqa": hotpotqa.parse_row,
    "2wikimultihopqa": twowiki.parse_row,
}


@pytest.mark.parametrize("kind", PARSERS)
def test_official_rows(kind):
    """Rows go through JSON and the parser of their format, and give the text and the marks that the
    world knows."""
    for seed in range(40):
        made = sample(kind, seed, tokens=300 + 40 * seed, purpose="evaluation")
        row = PARSERS[kind](json.loads(json.dumps(made.rows[0])))
        example, document = example_and_document(row)
        assert document == made.documents[0]
        assert example.question == made.examples[0].question
        assert sorted(example.gold.supporting, key=lambda s: s.start) == list(
            made.examples[0].gold.supporting
        )
        assert example.gold.answers == made.examples[0].gold.answers


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"evidences": [["a", "b"]]}, "evidences"),
        ({"evidences": 3}, "evidences"),
        ({"evidences": "[[a"}, "evidences"),
        ({"evidences": [{"fact": "a", "relation": "b"}]}, "evidences"),
        ({"context": 3}, "context"),
        ({"context": "no JSON"}, "context"),
    ],
)
def test_bad_2wiki_rows(change, field):
    row = {**sample("2wikimultihopqa", 0, tokens=300, purpose="evaluation").rows[0], **change}
    with pytest.raises(RowError) as caught:
        twowiki.parse_row(row)
    assert str(caught.value.field).startswith(field)


def columns(rows, *names):
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}


def objects(rows, *names):
    return [dict(zip(names, row, strict=True)) for row in rows]


FORMS = {
    "columns": (columns, ("title", "sentences"), ("fact", "relation", "entity")),
    "objects": (objects, ("title", "content"), ("fact", "relation", "entity")),
    "objects in another order": (lambda rows, *names: objects([row[::-1] for row in rows], *names[::-1]), ("title", "content"), ("subject", "relation", "object")),
    "JSON text": (lambda rows, *names: json.dumps(rows), (), ()),
    "JSON text of columns": (lambda *values: json.dumps(columns(*values)), ("title", "content"), ("subject", "relation", "object")),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_2wiki_rows_of_other_copies_are_the_same_rows(form):
    make, paragraph, triple = FORMS[form]
    row = sample("2wikimultihopqa", 0, tokens=300, purpose="evaluation").rows[0]
    facts = make(row["supporting_facts"], "title", "sent_id")
    other = {
        "context": make(row["context"], *paragraph),
        "evidences": make(row["evidences"], *triple),
    }
    assert twowiki.parse_row({**row, **other, "supporting_facts": facts}) == twowiki.parse_row(row)


BAD = [
    ({"tokens": -5}, ConfigError, "dataset.tokens: should be 200 to 10,000,000, is -5"),
    ({"tokens": 10**12}, ConfigError, "should be 200 to 10,000,000, is 1,000,000,000,000"),
    ({"tokens": 1.5}, ConfigError, "dataset.tokens=1.5: should be a valid integer"),
    ({"tokens": True}, ConfigError, "dataset.tokens=True: should be a valid integer"),
    ({"questions": 0}, ConfigError, "dataset.questions=0: should be greater than or equal to 1"),
    ({"hops": [5]}, ConfigError, "dataset.hops: should be 1 to 4, or a list of these, is [5]"),
    ({"hops": 0}, ConfigError, "dataset.hops: should be 1 to 4"),
    ({"seed": -1}, ConfigError, "dataset.seed: should be 0 or more, is -1"),
    ({"tokns": 3}, ConfigError, "unknown key 'dataset.tokns'. Did you mean 'tokens'"),
    ({"kind": "musiqe"}, UnknownName, "Did you mean 'musique'?"),
    (
        {"seed": FIRST_TRAINING_SEED},
        ConfigError,
        "evaluation has the seeds 0 to 999,999, so that no model is tested",
    ),
    (
        {"split": "vaildation"},
        ConfigError,
        "unknown split 'vaildation'. Did you mean 'validation'?",
    ),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD)
def test_refused(options, error, message):
    with pytest.raises(error) as caught:
        load(config(**options))
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["data", "hub", "subset", "revision"])
def test_files_are_refused(name):
    with pytest.raises(
        ConfigError, match=rf"dataset\.{name}: 'pocket/musique' is made up, not read"
    ):
        load(config().model_copy(update={name: "x"}))


def test_training_seeds_are_for_training():
    data = load(config(split="train", seed=FIRST_TRAINING_SEED))
    assert len(data) == 6
    made = sample("musique", FIRST_TRAINING_SEED, tokens=400, purpose="training")
    assert made.documents[0].text == next(iter(data.documents.values())).text


def test_a_small_training_seed_is_counted_from_the_first_one():
    small, large = (load(config(split="train", seed=n)) for n in (3, FIRST_TRAINING_SEED + 3))
    assert small.fingerprint == large.fingerprint


@pytest.mark.parametrize("seed", [0, 7, 999_999])
def test_solved_examples_come_from_training_seeds(command, seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("script.yaml").write_text("replies: [{reply: Paris}]")
    sets = ["dataset.shots=2", f"dataset.seed={seed}", "dataset.tokens=200", "dataset.questions=3"]
    model = ["--model", "scripted", "--set", "model.script=script.yaml", *sets]
    run = ["run", "-m", "closed-book", "-d", "pocket/musique", *model, "--keep-prompts"]
    code, _, err = command(*run, "--mlflow", "off", "--out", "out")
    assert code == 0, err
    (requests,) = Path("out").rglob("requests.jsonl")
    shown = [line.count("Answer: ") for line in requests.read_text().splitlines()]
    assert shown
    assert min(shown) >= 2


def test_a_file_in_a_folder_is_named_with_it(tmp_path, monkeypatch):
    own = tmp_path / "datasets" / "mine" / "deep"
    own.mkdir(parents=True)
    (own / "set.v1.yaml").write_text("extends: pocket/musique\nsummary: my own\n")
    monkeypatch.setenv(presets.CONFIGS_VARIABLE, str(tmp_path))
    assert presets.find("datasets", "Mine/Deep/set.V1") == "mine/deep/set.v1"
    origin, _ = presets.read("datasets", "mine/deep/set.v1")[-1]
    assert origin == f"${presets.CONFIGS_VARIABLE}/datasets/mine/deep/set.v1.yaml"
    assert presets.summaries("datasets")["mine/deep/set.v1"] == "my own"
    with pytest.raises(UnknownName, match="pocket/musique"):
        presets.find("datasets", "pocket/musiqe")


def test_options_may_be_set_without_saying_options_and_the_last_one_holds():
    sets = {"dataset.tokens": 20000, "dataset.options.seed": 7, "dataset.hops": [1, 2]}
    sets |= {"dataset.options.tokens": 300, "dataset.seed": 8}
    found = resolve(Choices(method="bm25", dataset="pocket/musique", sets=sets))
    options = found.config.dataset.options
    assert (options["tokens"], options["seed"], options["hops"]) == (300, 8, [1, 2])
    assert found.origins["dataset.options.tokens"] == "--set"
    assert found.origins["dataset.options.questions"] == "configs/datasets/pocket/musique.yaml"


def test_options_that_are_no_mapping(tmp_path):
    (tmp_path / "own.yaml").write_text("dataset: {name: pocket/musique, tokens: 500, options: 3}\n")
    with pytest.raises(ConfigError, match=r"dataset\.options=3"):
        _ = resolve(Choices(method="bm25", files=(str(tmp_path / "own.yaml"),))).config
