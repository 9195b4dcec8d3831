"""What is said of the embedded models, and the warning about skills that a card does not vouch
for."""

import shutil
import sys
from dataclasses import replace

import pytest
from harness_training import method_skills
from harness_training.method_skills.reading import skills
from harness_training.tasks import Skill
from pocket import card as hooks
from pocket.eval import card as cards

from harness.config import registry
from harness.config.layers import Choices
from harness.config.schema import ModelConfig
from harness.engine import model_warnings as embedded
from harness.engine.plan import plan_choices
from harness.llm.adapters import prompt_digests
from harness.storage.stored_config import StoredDataset, StoredModel
from packages.pocket.tests import trainings
from tests.cli.fakes import Echo

READER = {"name": "pocket-llama", "package": "pocket", "package_path": "model", "embedded": True}
RANDOM = {"name": "random-llama", "backend": "random", "embedded": True}
MADE_FOR_IT = "pocket-llama is the embedded model, made for the synthetic world (pocket/*)"
PLUMBING = (
    "pocket-llama is trained on pocket/* only and is no model for questions about {}: its scores "
    "show that a method runs, and nothing of its quality"
)
NOISE = "random-llama is a random model: its answers are noise"


@pytest.mark.parametrize(
    ("model", "dataset", "sentence"),
    [
        (READER, ("pocket/musique", "pocket"), MADE_FOR_IT),
        (READER, ("my-world", "pocket"), MADE_FOR_IT),
        (READER, ("musique", "musique"), PLUMBING.format("musique")),
        (
            READER,
            ("pocket/mine", "musique"),
            PLUMBING.format("pocket/mine"),
        ),  # a name says not where rows are from
        (RANDOM, ("pocket/musique", "pocket"), NOISE),
    ],
)
def test_the_caveat_of_a_stored_run(model, dataset, sentence):
    name, form = dataset
    stored = StoredDataset(name=name, format=form, scorers=[])
    assert embedded.embedded_caveat(StoredModel.from_json(model), stored) == sentence


def skill(name="answer"):
    return Skill(name, "question", lambda *_: pytest.fail("a plan plays no skill"))


class Skilled(Echo):
    """A method whose skills and prompt a test chooses."""

    head = "Answer."

    def prompts(self):
        return {"answer": self.head}


class Silent(Echo):
    """A method whose skills are listed nowhere and that lists no prompts."""

    def prompts(self):
        return {}


def method(*skills, head="Answer."):
    made = Skilled(Skilled.Config())
    made.head = head
    made.config.__dict__["own"] = skills
    return made


def own_skills(config):
    return config.own


@pytest.fixture(autouse=True)
def listed(monkeypatch):
    """The skills of `Skilled` are listed."""
    monkeypatch.setitem(method_skills.SKILLS, f"{__name__}:Skilled", f"{__name__}:own_skills")


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return trainings.make_tiny(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def model(weights, tmp_path, monkeypatch):
    """A model that a package carries, with a card for the skill "answer" alone."""
    folder = shutil.copytree(weights, tmp_path / "carrier" / "weights")
    (tmp_path / "carrier" / "__init__.py").write_text("")
    card = cards.blank_card(folder)
    cards.write_card(
        replace(
            card, skills={"answer": "0"}, prompts=[*prompt_digests({"answer": "Answer."}).values()]
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "carrier", raising=False)
    monkeypatch.setattr(
        registry, "model_hooks", lambda package: hooks if package == "carrier" else None
    )
    return ModelConfig(name="tiny", package="carrier", package_path="weights", embedded=True)


@pytest.mark.parametrize(
    ("instance", "reason"),
    [
        (method(), None),
        (method(skill()), None),
        (method(skill(), head="Say it."), "prompt 'answer': not trained in these words"),
        (method(skill("muse")), "muse: never trained"),
        (Echo(Echo.Config()), "prompt 'echo (table 9)': not trained in these words"),
        (
            method(skill("muse"), head="Say it."),
            "muse: never trained; prompt 'answer': not trained in these words",
        ),
    ],
    ids=["none", "as trained", "changed", "new", "no skills but a prompt", "both"],
)
def test_what_the_card_does_not_vouch_for_is_one_warning(instance, reason, model):
    found = embedded.untrained_warnings([model, model], instance, "mine")
    if reason is None:
        assert found == []
        return
    (warning,) = found
    assert warning.startswith(f"tiny was not trained on what 'mine' asks of it now ({reason}")
    assert warning.endswith("so it may do worse than its card says  (harness pocket check)")


def test_a_method_without_skills_and_prompts_is_one_warning(model):
    (warning,) = embedded.untrained_warnings([model, model], Silent(Silent.Config()), "lead")
    assert warning == (
        "tiny was not trained on what 'lead' asks of it now (it lists no prompts, so nobody "
        "knows), so it may do worse than its card says  (harness pocket check)"
    )


@pytest.mark.parametrize(
    "instance", [method(skill("muse")), Echo(Echo.Config())], ids=["new skill", "no skills"]
)
def test_no_card_or_no_embedded_model_is_no_warning(instance, model, tmp_path):
    others = [ModelConfig(**RANDOM), ModelConfig(name="m", source="org/m")]
    assert embedded.untrained_warnings(others, instance, "mine") == []
    (tmp_path / "carrier" / "weights" / "card.json").unlink()
    assert embedded.untrained_warnings([model], instance, "mine") == []


PRESET = "name: tiny\npackage: carrier\npackage_path: weights\nembedded: true\nwindow: 1024\n"


def plan(tmp_path, monkeypatch, preset, **more):
    (tmp_path / "own" / "models").mkdir(parents=True, exist_ok=True)
    (tmp_path / "own" / "models" / "tiny.yaml").write_text(PRESET)
    monkeypatch.setenv("HARNESS_CONFIGS", str(tmp_path / "own"))
    return plan_choices(
        Choices(method=preset, dataset="pocket/musique", model="tiny", limit=1, **more)
    )


def test_the_plan_warns(model, tmp_path, monkeypatch):
    (warning,) = plan(tmp_path, monkeypatch, "bm25").warnings
    assert (
        "'bm25' asks of it now (choose: never trained; prompt 'answer': not trained in these "
        "words; " in warning
    )
    assert plan(tmp_path, monkeypatch, "closed-book").warnings == ()
    folder = tmp_path / "carrier" / "weights"
    card = cards.read_card(folder)
    assert card is not None
    card = replace(
        card, skills={skill.name: cards.fingerprint(skill, folder) for skill in skills()}
    )
    cards.write_card(replace(card, prompts=cards.trained_prompts(card)))
    assert plan(tmp_path, monkeypatch, "bm25").warnings == ()
