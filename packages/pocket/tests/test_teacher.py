"""What the teacher writes down is what a real session is fed, token by token."""

import shutil
from dataclasses import replace

import pytest
from harness_training.tasks import Scene, Skill
from harness_training.teacher import ProbeTarget, SceneTools
from pocket.eval.exam import default_cell
from pocket.tasks.catalog import make_scenes, skills
from pocket.train import llama

from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.errors import UserError
from harness.llm.backend import load_model
from harness.llm.hf_session import HFSession
from harness.method import Task
from harness.models import Span, Written
from harness.stats.rng import Dice
from harness.types import Question

SCENE = Scene(
    Question("q", "Who wrote Velindra?", ("d",)),
    ("Velindra is by Toren.", "Toren was born in Kelford."),
    Task(instruction="Answer.", max_answer_tokens=8),
    replies=("Toren",),
    verdicts=(True, False),
)


def play(scene, tools):
    with tools.model().session() as s:
        s.user("Question: ")
        asked = s.feed(scene.question.text)
        for text in scene.texts:
            s.feed("\n* ")
            s.feed(text, watch=[asked])
            s.probe(["Yes", "No"], after="So ")
        s.reply("Yes")
        s.user("Now answer:")
        s.write(tools.task.max_answer_tokens)


SKILL = Skill("mine", "sufficiency", play)


def test_a_skill_by_hand(teacher):
    begin, end, user, assistant = range(4)
    plain = teacher.plain
    head = [begin, user, *plain("Question: "), *plain("Who wrote Velindra?")]
    one = [*head, *plain("\n* "), *plain("Velindra is by Toren.")]
    two = [*one, *plain("\n* "), *plain("Toren was born in Kelford.")]
    asked = [*two, end, assistant, *plain("Yes"), end, user, *plain("Now answer:"), end, assistant]
    transcript = teacher.play(SKILL, SCENE)
    assert transcript.ids == [*asked, *plain("Toren"), end]
    assert transcript.targets == [len(asked), len(asked) + 1]
    (yes,), (no,) = plain("Yes"), plain("No")
    assert transcript.probes == [
        ProbeTarget(len(one), (end, assistant, *plain("So "), yes)),
        ProbeTarget(len(two), (end, assistant, *plain("So "), no)),
    ]


def test_what_is_put_into_the_models_mouth_is_no_target(teacher):
    def begins(scene, tools):
        with tools.model().session() as s:
            s.user(scene.question.text)
            assert s.write(8, begin="It is").text == "Toren"

    scene = Scene(SCENE.question, (), SCENE.task, replies=("Toren",))
    transcript = teacher.play(Skill("mine", "question", begins), scene)
    assert [transcript.ids[i] for i in transcript.targets] == [*teacher.plain("Toren"), 1]
    assert transcript.ids[: transcript.targets[0]][-2:] == list(teacher.plain("It is"))[-2:]


def calls(*verbs):
    def does(scene, tools):
        with tools.model().session() as s:
            s.user("x")
            for verb in verbs:
                verb(s)

    return does


def write(session):
    return session.write(4)


def two_sessions(scene, tools):
    for _ in range(2):
        calls(lambda s: s.flush())(scene, tools)


REFUSED = [
    (
        "a second reply",
        calls(write, lambda s: s.user("y"), write),
        "asks for more replies than a scene of kind",
    ),
    (
        "a third verdict",
        calls(*[lambda s: s.probe(["Yes", "No"])] * 3),
        "asks for more verdicts than a scene of kind",
    ),
    (
        "one verdict of two",
        calls(lambda s: s.probe(["a", "b"]), lambda s: s.write(4)),
        "did not ask for all",
    ),
    ("a branch", calls(lambda s: s.branch().__enter__()), "cannot branch; make two skills"),
    ("a score", calls(lambda s: s.score("x")), "did not ask for all"),
    ("two sessions", two_sessions, "opens one session only"),
    ("a reranker", lambda scene, tools: tools.reranker(), "no encoder and no reranker"),
]


@pytest.mark.parametrize(("does", "message"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_a_skill_may_not_do(teacher, does, message):
    with pytest.raises(UserError, match=message):
        teacher.play(Skill("mine", "question", does), SCENE)


def test_what_is_scored_is_to_be_found_likely(teacher):
    scene = replace(SCENE, replies=(), verdicts=())
    transcript = teacher.play(
        Skill("mine", "followed", calls(lambda s: s.score(" one two"))), scene
    )
    assert [transcript.ids[i] for i in transcript.targets] == list(teacher.plain(" one two"))
    assert transcript.targets[-1] == len(transcript.ids) - 1, "nothing follows it"


class Forced(HFSession):
    """A session on real weights that writes the scene's replies; it notes where its probes stood
    and what they fed."""

    def start(self, replies):
        self.to_write, self.probes, self.queued = iter(replies), [], []
        self.scored = []
        return self

    def _queue(self, ids):
        self.queued += ids
        return super()._queue(ids)

    def probe(self, labels, after=""):
        at, self.queued = len(self.ids), []
        found = super().probe(labels, after)
        self.probes.append((at, tuple(self.queued), self._first_tokens(labels)))
        return found

    def score(self, text):
        found = super().score(text)
        self.scored = self._model.text.encode_data(text)
        return found

    def _write_answer(self, *arguments):
        text = next(self.to_write)
        start = len(self.ids)
        self.ids += self._model.text.encode_data(text)
        return Written(text, Span(start, len(self.ids)), "stop")


@pytest.fixture(scope="module")
def real(own, tokenizer_folder, tmp_path_factory):
    folder = shutil.copytree(tokenizer_folder, tmp_path_factory.mktemp("real") / "model")
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    }
    llama.save_weights(
        llama.new_network(len(own), 0, (own.bos_token_id, own.eos_token_id), **sizes), folder
    )
    return load_model(ModelConfig(name="real", source=str(folder), dtype="float32"))


@pytest.mark.parametrize("name", ["mine", *skills()])
def test_the_teacher_writes_down_what_a_real_session_is_fed(real, teacher, monkeypatch, name):
    skill = SKILL if name == "mine" else skills()[name]
    scenes = [SCENE]
    if name != "mine":
        recipe = default_cell(skill.scene).recipe
        scenes = [
            s for n in range(6) for s in make_scenes(recipe, skill.scene, Dice(n), "evaluation")
        ]
        assert len(scenes) >= 4
    for scene in scenes:
        s = Forced(real, Meter(), "reader").start(scene.replies)
        monkeypatch.setattr(real, "session", lambda *_, s=s: s)
        transcript = teacher.play(skill, scene)
        skill.play(scene, SceneTools(real, scene))
        assert s.ids + s.scored == (transcript.ids[:-1] if scene.replies else transcript.ids)
        assert {transcript.ids[-1]} <= real.stop_ids or not scene.replies
        assert len(s.probes) == len(transcript.probes) == len(scene.verdicts)
        for (at, fed, firsts), probe, verdict in zip(
            s.probes, transcript.probes, scene.verdicts, strict=True
        ):
            assert (probe.at, probe.ids) == (at, (*fed, firsts[0 if verdict else 1]))
