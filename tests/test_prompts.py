"""Every prompt of every method can be replaced, and what replaces it is what the model reads."""

import itertools
import re
import shutil
from functools import cache

import pytest
from harness_training.method_skills import skills_of
from harness_training.settings import Settings, read_settings
from harness_training.tasks import Scene
from harness_training.teacher import Teacher
from pocket.card import EMBEDDED
from pocket.eval import card as cards

from harness.config import presets
from harness.config.layers import Choices
from harness.config.resolve import resolve_method
from harness.config.schema import ModelConfig
from harness.config.yaml_tree import parse_assignments
from harness.cost.meter import Meter
from harness.engine.completed_method import make_method
from harness.engine.plan import PlannedRun, plan_choices
from harness.errors import CannotRun, ConfigError, UserError
from harness.llm.backend import load_model
from harness.llm.scripted import Rule
from harness.method import Method
from harness.prompts import Pieces, Prompt, feed, prompt_tokens
from harness.types import Document, Question
from tests.datasets.support import needs_real, real
from tests.methods.conftest import FakeTools, answered
from tests.random_model import TEMPLATE

QUESTION = Question("q", "Who?", ("d",))
# What no skill of a preset sends: requests without a text, and choices that the preset does not
# make.
NO_TEXT = {"answer without text"}
UNSEEN: dict[str, set[str]] = {
    "pecan": {"search, plain wording"},
    "pecan-no-graph": {"search, plain wording"},
    "pecan-choice-wording": {"search"},
    "raptor-ct": NO_TEXT,
    "memwalker": {"triage", "leaf", "triage, the way back", "answer", *NO_TEXT},
    "memwalker-no-reasoning": {
        "triage, with reasons", "leaf, with reasons", "triage, the way back", "answer", *NO_TEXT,
    },
    "longrefiner": NO_TEXT,
    "qrmem": NO_TEXT,
    "gist": NO_TEXT,
    "decom": {"sub-answers", "steps", *NO_TEXT},
    "summary": NO_TEXT,
    "bm25": NO_TEXT,
    "longllmlingua": NO_TEXT,
}  # fmt: skip


def method(preset: str, **prompts) -> Method:
    d = resolve_method(Choices(method=preset, sets={"method.prompts": prompts} if prompts else {}))
    return make_method(d.value, d.origins)


def plan(preset: str = "bm25", *sets: str, **more) -> PlannedRun:
    given = {
        "dataset": "pocket/musique",
        "profile": "pocket",
        "sets": parse_assignments(sets, ""),
        **more,
    }
    return plan_choices(Choices(method=preset, **given))


@cache
def scenes_of(kind: str, name: str) -> list[Scene]:
    """Scenes on which a skill's fingerprint is taken, by the skill of that name in the words it was
    trained on."""
    from pocket.tasks.catalog import skills

    name = name.replace(", plain wording", "")
    return cards._fingerprint_scenes(skills()[name])


@cache
def teacher() -> Teacher:
    from harness.llm.fast_tokenizer import FastTokenizer

    return Teacher(FastTokenizer(EMBEDDED), window=10**6)


def test_each_prompt_of_each_preset_can_be_replaced() -> None:
    for preset in presets.names("methods"):
        own = method(preset)
        assert own.templates(), f"{preset} lists no templates: nobody can replace its prompts"
        assert own.prompts().keys() == {p.name for p in own.templates()}, preset
        marked = {p.name: f"Mark {i}. {p.text}" for i, p in enumerate(own.templates())}
        assert method(preset, **marked).prompts() == marked, preset


@pytest.mark.parametrize("preset", UNSEEN)
def test_what_replaces_a_prompt_is_what_the_model_reads(preset: str) -> None:
    own = method(preset)
    made = method(preset, **{p.name: f"Mark {i}. {p.text}" for i, p in enumerate(own.templates())})
    prompts = "\n".join(
        teacher().text.decode(teacher().play(skill, scene).ids)[0]
        for skill in skills_of(made)
        for scene in scenes_of(skill.scene, skill.name)
    )
    assert {
        p.name for i, p in enumerate(own.templates()) if f"Mark {i}. " not in prompts
    } == UNSEEN[preset]


def test_prompts_that_no_skill_sends() -> None:
    tools = FakeTools([Rule(reply="* Who was it?")])
    text = Document("d", "Ann was it.")
    for preset, prompts in (
        ("closed-book", {"answer without text": "{instruction} M1 {question}{options}"}),
        ("sliding-window", {"sliding window": " M2"}),
        ("decom", {"sub-answers": "M3", "steps": "M4 {question} {answer}"}),
    ):
        answered(method(preset, **prompts), tools, text, QUESTION)
    sent = "\n".join(tools.reader.prompts)
    assert all(f"M{n}" in sent for n in range(1, 5))


ANSWER = "Brief. {instruction}\n{text}\n{question}{options}"


@pytest.mark.parametrize(
    ("sets", "sentence"),
    [
        (["method.prompts.answr=x"], "unknown prompt 'answr' of 'bm25'. Did you mean 'answer'?"),
        (
            ["method.prompts.answer={instruction}{text}{options}"],
            "prompt 'answer' of 'bm25' lacks {question}",
        ),
        (
            [f"method.prompts.answer={ANSWER}{{txt}}"],
            "prompt 'answer' of 'bm25' has no placeholder {txt}",
        ),
        ([f"method.prompts.answer={ANSWER}{{text}}"], "has {text} more often than the original"),
        (["method.prompts.answer.system=Be {instruction}"], "a system turn has no placeholders"),
        (
            ["method.prompts.answer.sytem=Be brief."],
            "give a text, or a mapping with 'user', 'system' or both",
        ),
        (["method.prompts=/no/such.yaml"], "/no/such.yaml: cannot be read"),
    ],
)
def test_what_cannot_replace_a_prompt_is_one_sentence(sets: list[str], sentence: str) -> None:
    with pytest.raises((UserError, ConfigError)) as raised:
        plan("bm25", *sets)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_prompt_that_grows_keeps_its_order_and_a_later_turn_has_no_system() -> None:
    with pytest.raises(
        UserError, match=r"must have \{question\}, \{nodes\} in this order, with nothing behind"
    ):
        method("pecan", search="{question} {nodes} Yes or No?")
    with pytest.raises(UserError, match="is a later turn of a conversation"):
        method("pecan", **{"second turn": {"system": "Be brief."}})


def test_a_file_a_profile_and_a_flag_are_merged_turn_by_turn(tmp_path) -> None:
    prompts, config = tmp_path / "prompts.yaml", tmp_path / "config.yaml"
    prompts.write_text(f"answer: {ANSWER!r}".replace("'", '"'))
    config.write_text(
        f"methods: {{bm25: {{prompts: {prompts}}}, '*': {{prompts: {{answer: {{system: One.}}}}}}}}"
    )
    made = plan("bm25", "method.prompts.answer.system=Two.", files=(str(config),))
    assert made.method.prompts()["answer"] == ANSWER
    assert made.method.prompts()["answer, system"] == "Two."
    assert made.origins["method.params.prompts.answer.user"] == str(config)
    assert made.origins["method.params.prompts.answer.system"] == "--set"
    typed = plan(
        "bm25", f"method.prompts={prompts}", "method.prompts.answer.system=Two."
    ).method.prompts()
    assert (typed["answer"], typed["answer, system"]) == (ANSWER, "Two.")
    # A method without such a prompt is left alone by what is said of all methods, but a name close
    # to one is refused.
    assert "One." not in plan("gist", files=(str(config),)).method.prompts()["page break"]
    assert plan("gist", files=(str(config),)).method.prompts()["answer, system"] == "One."
    config.write_text("methods: {'*': {prompts: {answr: x}}}")
    with pytest.raises(UserError, match="Did you mean 'answer'"):
        plan("bm25", files=(str(config),))


def test_the_hash_follows_the_text_and_nothing_else() -> None:
    before = plan()
    changed = plan("bm25", "method.prompts.answer=" + ANSWER)
    same = plan("bm25", "method.prompts.answer=" + before.method.prompts()["answer"])
    assert before.hash8 == same.hash8 != changed.hash8
    assert "prompts" not in before.config.method.params


def test_a_system_turn_reaches_the_model_and_its_window() -> None:
    tools = FakeTools([Rule(reply="Ann")])
    made = method("closed-book", **{"answer without text": {"system": "Be brief."}})
    made.answer(QUESTION, [Document("d", "")], [{}], tools)
    assert tools.reader.prompts[0].startswith("[system]Be brief.\n[user]Answer a question")
    pieces = Prompt("p", "a {x}", "Be brief.").fill(x=["b"])
    assert (
        prompt_tokens(pieces, tools.model()) == 3 + 2 + 3
    )  # with [system]; [user] and [reply]; "a", " ", "b"


def test_a_system_turn_on_real_tokens() -> None:
    model = load_model(ModelConfig(name="random", backend="random"))
    session = model.session(Meter())
    pieces = Prompt("p", "a {x}", "Be brief.").fill(x=["b"])
    feed(session, pieces)
    turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a b"}]
    template = model.text.tokenizer.apply_chat_template(turns, tokenize=False)
    assert model.text.tokenizer.decode(session.ids) == template.removesuffix("<|end|>\n")
    words = model.count("a ") + model.count("b")
    assert (
        session.length() + len(model.before_reply_ids)
        == model.turn_tokens() + model.system_turn_tokens("Be brief.") + words
    )
    with pytest.raises(ValueError, match="before everything else"):
        session.system("again")


def test_a_template_without_a_system_role_is_refused_by_the_plan_and_by_the_model(tmp_path) -> None:
    template = tmp_path / "t.jinja"
    refusal = "{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    template.write_text(TEMPLATE.replace("<|{{", refusal + "<|{{", 1))
    sets = ["method.prompts.answer.system=Be brief.", f"model.template={template}"]
    with pytest.raises(
        UserError, match="the chat template of 'random-llama' has no system role, but a prompt"
    ):
        plan("bm25", *sets, model="random")
    assert plan("bm25", *sets[1:], model="random")
    assert plan("bm25", *sets[:1], model="random")
    model = load_model(ModelConfig(name="random", backend="random", template=str(template)))
    made = Pieces(["a"])
    made.system = "Be brief."
    with pytest.raises(CannotRun, match="has no system role"):
        feed(model.session(Meter()), made)


def test_an_adapter_of_another_prompt_is_refused_by_the_plan() -> None:
    sentence = "the adapter 'analysis' was trained on another prompt 'analysis' than the one in use"
    with pytest.raises(UserError, match=sentence):
        plan("longrefiner", "method.prompts.analysis=One or many? {question}")
    # What the adapter did not learn may change, and so may everything without the adapter.
    assert plan("longrefiner", "method.prompts.answer=" + ANSWER)
    assert plan(
        "longrefiner", "method.prompts.analysis=One? {question}", "method.analysis_adapter=null"
    )


@pytest.mark.parametrize(
    ("task", "trained"), itertools.permutations(("analysis", "structuring", "selection"), 2)
)
@pytest.mark.parametrize("name", ["its own", "mine"])
def test_an_adapter_of_another_task_is_refused_by_the_plan(
    task: str, trained: str, name: str
) -> None:
    folder = plan("longrefiner").models["refiner"].adapters[trained]
    used = task if name == "its own" else name
    sets = (f"roles.refiner.adapters.{used}={folder}", f"method.{task}_adapter={used}")
    with pytest.raises(
        UserError, match=f"the adapter '{used}' in .* was trained for {trained}, .* on for {task}; "
    ):
        plan("longrefiner", *sets)
    assert plan(
        "longrefiner", sets[0], f"method.{trained}_adapter={used}", f"method.{task}_adapter=null"
    )


def test_adapters_whose_prompts_nobody_knows_are_a_warning(tmp_path) -> None:
    """As those that LongRefiner's authors released: they have no card, and were trained on other
    prompts."""
    own = plan("longrefiner").models["refiner"].adapters
    assert not any("no card" in warning for warning in plan("longrefiner").warnings)
    for name in ("analysis", "selection"):
        shutil.copytree(own[name], tmp_path / name)
        (tmp_path / name / "card.json").unlink()
    sets = [
        f"roles.refiner.adapters.{name}={tmp_path / name}" for name in ("analysis", "selection")
    ]
    (warning,) = (w for w in plan("longrefiner", *sets).warnings if "no card" in w)
    assert warning.startswith(
        "no card says on which prompts these adapters were trained: analysis, selection; "
    )
    assert "--set method.prompts=FILE" in warning


# What a preset adds to the printed words: places for what this project shows too, and the form of a
# reply.
ADDED = (
    "Question:",
    "Answer: …",
    "Write each entity on",
    "Write one line for",
    "Ask up to",
    "Document",
    "Action: -2",
)


@needs_real
@pytest.mark.parametrize(
    ("preset", "paper"), [("longrefiner-printed-prompt", "002"), ("qrmem-printed-prompts", "003")]
)
def test_a_transcription_has_the_words_that_the_paper_prints(preset: str, paper: str) -> None:
    (file,) = real("seeds").glob(f"{paper}_*")
    printed = " ".join(file.read_text(encoding="utf-8").split())
    (_, values) = presets.read("methods", preset)[-1]
    texts = list(values["params"]["prompts"].values())
    if paper == "002":
        tasks = read_settings(
            Settings, "longrefiner", "paper", ("analysis", "structuring", "selection"), {}
        ).tasks
        texts += [task.asked for task in tasks.values()]
    lines = [line for text in texts for line in text.splitlines()]
    pieces = [
        " ".join(piece.split())
        for line in lines
        if not line.startswith(ADDED)
        for piece in re.split(r"\{\w+\}", line)
    ]
    assert [piece for piece in pieces if piece not in printed] == []
    assert sum(map(len, pieces)) > 130
