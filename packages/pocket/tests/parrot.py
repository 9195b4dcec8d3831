"""A model that says what it is told, and skills that tell it: known answers for the exam."""

from harness_training.tasks import Skill

from harness.llm.scripted import Script, ScriptedModel, ScriptedSession
from harness.method import Task
from harness.models import Probe, Span, Written

TASK = Task(instruction="Answer.", max_answer_tokens=8)


class Parrot(ScriptedSession):
    """Writes what it was fed last; P(first label) is the number it was fed last."""

    def _open(self, turn): ...

    def _append(self, text):
        self.last = text
        return super()._append(text)

    def _probe(self, labels, firsts, after):
        p = float(self.last)
        return Probe({labels[0]: p, labels[1]: 1 - p}, {})

    def _write(self, how, watch):
        return Written(self.last, Span(0, 0), "stop")


class Parrots(ScriptedModel):
    def __init__(self):
        super().__init__(Script(window=10_000))

    def session(self, meter, role="reader", adapter=None):
        return Parrot(self, meter, role)


def skill(name, scene, says):
    """A skill whose parrot probes and writes what `says` gives: as many numbers as verdicts, then
    the replies."""

    def play(scene, tools):
        with tools.model().session() as s:
            lines = says(scene)
            for p in lines[: len(scene.verdicts)]:
                s.user(p)
                s.probe(["Yes", "No"])
                s.reply("")
            for text in lines[len(scene.verdicts) :]:
                s.user(text)
                s.write(100_000)

    return Skill(name, scene, play)


def knowing(scene):
    return [str(float(v)) for v in scene.verdicts] + list(scene.replies)
