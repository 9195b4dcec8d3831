from dataclasses import replace
from typing import ClassVar

import pytest
from harness_training.method_skills import SKILLS

import harness.datasets
import harness.embed.encoder_info
import harness.llm.model_info
from harness.config.layers import Choices
from harness.datasets.base import Dataset
from harness.engine.plan import plan_choices
from harness.errors import CannotRun, UserError
from harness.llm.backend import ModelFacts
from harness.method import Method, MethodConfig, Task
from harness.types import Answer, Document, Example, Gold, Question, Support


class Searcher(Method):
    """Needs two models and an encoder."""

    class Config(MethodConfig):
        word: str = "w"
        k: int = 3

    needs: ClassVar[dict[str, frozenset[str]]] = {
        "reader": frozenset(),
        "searcher": frozenset({"attention", "probe"}),
    }
    encoders = ("encoder",)
    text = "prompt"

    def answer(self, question, documents, indexes, tools):
        return Answer("")

    def prompts(self):
        return {"p": self.text}


HERE = f"{__name__}:Searcher"
FILES = {
    "methods/searcher.yaml": f"implementation: {HERE}\n",
    "methods/cut.yaml": f"implementation: {HERE}\nview: evidence\n",
    "methods/lost.yaml": "implementation: tests.nowhere:Thing\n",
    "methods/mute.yaml": "implementation: harness.method:Method\n",
    "datasets/books.yaml": (
        "format: musique\nhub: org/books\ninstruction: Answer.\nmax_answer_tokens: 8\nscorers: "
        "[flashrag.em]\n"
    ),
    "datasets/pocket/books.yaml": "extends: books\nhub: null\n",
    "datasets/plays.yaml": "extends: books\n",
    "models/able.yaml": "source: org/able\n",
    "models/plain.yaml": "source: org/plain\n",
    "models/broken.yaml": "source: org/broken\n",
}


@pytest.fixture(autouse=True)
def world(tmp_path, monkeypatch):
    """Presets, data and facts that are made up."""
    for name, text in FILES.items():
        path = tmp_path / "own" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("HARNESS_CONFIGS", str(tmp_path / "own"))
    # It asks for nothing that a model is trained on, so the embedded model's card is no matter.
    monkeypatch.setitem(SKILLS, HERE, "harness_training.method_skills.reading:no_skills")
    monkeypatch.setattr("harness.datasets.load_once._loaded_by_key", {})
    monkeypatch.setattr(harness.datasets, "load", load)
    monkeypatch.setattr(harness.llm.backend, "model_facts", model_facts)
    monkeypatch.setattr(harness.embed.encoder_info, "encoder_facts", encoder_facts)


def load(config, limit=None):
    if config.data is None and config.hub is not None:
        raise CannotRun("no hub here; give the rows with --data")
    if config.data == "bad":
        raise UserError("line 7 is broken")
    marks = {"all": 3, "none": 0}.get(str(config.data), 2)
    examples = tuple(
        Example(
            Question(f"q{i}", "?", ("d",)), Gold(("a",), (Support("d", 0, 1),) if i < marks else ())
        )
        for i in range(0 if config.data == "empty" else 3)
    )
    return Dataset(
        config.name,
        examples,
        {"d": Document("d", "text")},
        f"print of {config.data}",
        str(config.data),
    )


def model_facts(config):
    able = frozenset({"attention", "probe"}) if config.name != "plain" else frozenset({"probe"})
    problems = ["the weights are gone"] if config.name == "broken" else []
    identity = {"weights": config.name, "dtype": config.dtype}
    return ModelFacts(
        config.name, able, config.window or 4096, identity, problems, [f"{config.name} is old"]
    )


def encoder_facts(config, role="encoder"):
    problems = ["no such encoder on disk"] if config.device == "nowhere" else []
    identity = {"encoder": config.name, "prefix": config.query_prefix}
    return ModelFacts(config.name, identity=identity, problems=problems)


def plan(**more):
    return plan_choices(
        replace(Choices(method="searcher", dataset="books", data="all", model="able"), **more)
    )


def problems(**more):
    with pytest.raises(UserError) as raised:
        plan(**more)
    return raised.value.sentences


def test_a_plan_holds_all_that_the_runner_needs():
    p = plan(sets={"roles.searcher": "default", "method.k": 5})
    assert isinstance(p.method, Searcher)
    assert (p.method.config.k, p.method.config.word) == (5, "w")
    assert p.config.method.params == {"word": "w", "k": 5}
    assert (p.origins["method.params.k"], p.origins["method.params.word"]) == ("--set", "default")
    assert {role: m.name for role, m in p.models.items()} == {
        "reader": "able",
        "searcher": "pocket-llama",
    }
    assert {role: e.name for role, e in p.encoders.items()} == {"encoder": "minilm"}
    assert p.identities["reader"] == {"weights": "able", "dtype": "auto"}
    assert p.identities["encoder"] == {"encoder": "minilm", "prefix": ""}
    assert p.task == Task(instruction="Answer.", max_answer_tokens=8)
    assert len(p.dataset) == 3
    assert p.folder == f"books/searcher--able--{p.hash8}"
    assert plan(model="org/Model-1B").folder.startswith("books/searcher--org~Model-1B--")
    assert len(p.hash8) == 8
    assert p.warnings == ("able is old", "pocket-llama is old")


@pytest.mark.parametrize(
    "more",
    [
        {"limit": 2},
        {"sets": {"failed": "skip"}},
        {"sets": {"dataset.scorers": ["flashrag.f1"]}},
        {"sets": {"encoder.batch_size": 5}},
        {"sets": {"model.prefill_chunk": 5}},
        {"sets": {"method.k": 3}},
        {"sets": {"roles.builder": "plain"}},
        {"sets": {"reranker": "org/r"}},
        {"sets": {"dataset.licence": "free"}},
    ],
    ids=str,
)
def test_what_changes_no_prediction_is_not_in_the_hash(more):
    assert plan(**more).hash8 == plan().hash8


def test_what_changes_a_prediction_is_in_the_hash(monkeypatch):
    changes = [
        {},
        {"seed": 1},
        {"data": "some"},
        {"dataset": "plays"},
        {"method": "cut"},
        {"model": "default"},
    ]
    sets = {
        "method.k": 4,
        "method.word": "x",
        "model.dtype": "float16",
        "roles.searcher": "default",
    }
    sets |= {
        "encoder.query_prefix": "query: ",
        "dataset.instruction": "Say.",
        "dataset.max_answer_tokens": 9,
    }
    changes += [{"sets": {key: value}} for key, value in sets.items()]
    hashes = [plan(**change).hash8 for change in changes]
    monkeypatch.setattr(Searcher, "text", "another prompt")
    hashes.append(plan().hash8)
    monkeypatch.setattr(Searcher, "index_version", "2")
    hashes.append(plan().hash8)
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"method": "lost"}, "no module 'tests.nowhere'"),
        (
            {"method": "mute"},
            "the method 'harness.method:Method' has no answer (docs/extending.md)",
        ),
        ({"data": "bad"}, "line 7 is broken"),
        ({"data": "empty"}, "the data set 'books' has no questions"),
        ({"data": None}, "no hub here; give the rows with --data"),
        ({"model": "broken"}, "the weights are gone"),
        (
            {"model": "plain"},
            "needs attention of its searcher, which the model 'plain' does not offer (probe)",
        ),
        (
            {"sets": {"model.window": 8}},
            "the window of 'able' (8 tokens) has no room beside the answer",
        ),
        ({"sets": {"encoder.device": "nowhere"}}, "no such encoder on disk"),
        (
            {"method": "cut", "data": "none"},
            "'cut' shows the supporting passages alone, but the data set",
        ),
    ],
    ids=lambda v: str(v)[:50],
)
def test_each_mistake_is_found_before_anything_is_loaded(more, expected):
    found = problems(**more)
    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        ({"Config": object}, "has a Config that is no harness.method.MethodConfig"),
        (
            {"scope": "documents"},
            "has scope 'documents'; it should be 'document', 'question' or 'none'",
        ),
        (
            {"index": lambda self, document, tools: {}},
            "has an index; say to what it belongs: scope = 'document'",
        ),
        (
            {"one_document": False},
            "has one_document in its class; write traits = Traits(one_document=False)",
        ),
        ({"index_roles": "reader"}, "has a text as index_roles; write ('reader',)"),
        (
            {"needs": {"raeder": frozenset()}},
            "has an unknown name in needs, 'raeder'. Did you mean 'reader'",
        ),
        (
            {"needs": {"reader": frozenset({"prob"})}},
            "has an unknown name in needs, 'prob'. Did you mean 'probe'?",
        ),
        (
            {"needs": {"reader": "probe"}},
            "has needs that map no roles to sets of capabilities; write {'reader': fr",
        ),
        (
            {"needs": ("reader",)},
            "has needs that map no roles to sets of capabilities; write {'reader': fr",
        ),
        (
            {"encoders": ("encodr",)},
            "has an unknown name in encoders, 'encodr'. Did you mean 'encoder'?",
        ),
        ({"encoders": "encoder"}, "has a text as encoders; write ('encoder',)"),
        (
            {"index_roles": ("raeder",)},
            "has an unknown name in index_roles, 'raeder'. Did you mean 'reader' or 'enc",
        ),
    ],
    ids=lambda v: str(v)[:30],
)
def test_what_a_class_declares_is_checked(declared, sentence, monkeypatch):
    for name, value in declared.items():
        monkeypatch.setattr(Searcher, name, value, raising=False)
    assert problems()[0].startswith(f"the method '{HERE}' {sentence}")


def test_wrong_names_and_keys_are_told_together_and_then_mistakes_in_rows_models_and_encoders():
    sets = {
        "method.kk": 1,
        "dataset.scorers": ["nope.em"],
        "roles.searcher": "broken",
        "seed": "x",
        "model.window": 0,
    }
    found = problems(sets=sets, data="bad")
    for part in ("method.kk", "nope.em", "seed='x'", "model.window=0"):
        assert sum(part in sentence for sentence in found) == 1, found
    assert len(found) == 4
    assert len(problems(sets={"encoder.device": "nowhere"}, data="bad", model="broken")) == 3


def test_a_number_is_text_where_a_method_wants_text():
    assert plan(sets={"method.word": "3"}).config.method.params["word"] == "3"
    assert "should be a valid string" in problems(sets={"method.word": 3})[0]


def test_made_up_rows_are_offered_not_taken():
    sentence = "no hub here; give the rows with --data"
    assert problems(data=None, model=None) == [
        f"{sentence}; made-up questions of its kind: --dataset pocket/books"
    ]
    assert problems(data=None, model=None, dataset="plays") == [sentence]


def test_what_is_set_and_not_used_is_said():
    p = plan(sets={"roles.compressor": "plain", "reranker": "org/r"})
    assert p.unused == ("roles.compressor", "reranker")
    sentence = "1 of 3 questions of 'books' have no supporting marks, so 'cut' answers them from an empty text"
    assert sentence in plan(method="cut", data="some").warnings


def test_a_data_set_is_loaded_once_and_an_unreachable_one_asked_for_once(monkeypatch):
    calls = []

    def counted(config, limit=None):
        calls.append(config.name)
        return load(config, limit)

    monkeypatch.setattr(harness.datasets, "load", counted)
    for _ in range(2):
        plan()
        problems(data=None)
    assert calls == ["books", "books"]
