"""A plan without a model, a network or a clock: two small methods, a counting model, and made-up
questions."""

import random
from dataclasses import dataclass

import numpy as np

from harness.config.schema import DatasetConfig as Data
from harness.config.schema import MethodChoice, ModelConfig, RunConfig, json_sha256
from harness.cost.flops import Event, ModelShape
from harness.datasets.base import Dataset
from harness.engine.plan import PlannedRun
from harness.engine.progress import Silent
from harness.engine.runner import AskOptions, run
from harness.errors import WindowExceeded
from harness.method import Method, MethodConfig, Task, Traits
from harness.method.settings import index_setting, setting
from harness.models import LanguageModel
from harness.storage.records import StoredRecord
from harness.types import Answer, Document, Example, Gold, Passage, Question, Shown, Step, Support

SHAPE = ModelShape(layers=2, width=8, heads=2, kv_heads=1, head_size=4, mlp=16, vocab=50)
SCORER = "musique.answer_f1"


class FakeModel(LanguageModel):
    """Reports one event a call and keeps the first prompt, as a back end does."""

    capabilities: frozenset[str] = frozenset()
    window = 4096
    shape = SHAPE

    def __init__(self, config):
        self.name, self.identity = config.name, {"weights": config.name}
        self.first_prompts = {}

    def session(self, meter, role="reader", adapter=None):
        return FakeSession(self, meter, role)

    def offsets(self, text):
        return [(i, i + 1) for i in range(len(text))]

    def turn_tokens(self):
        return 0


class FakeSession:
    def __init__(self, model, meter, role):
        self.model, self.meter, self.role = model, meter, role

    def feed(self, text):
        self.model.first_prompts.setdefault(self.role, {"text": text, "ids": [1, 2]})
        new, phase = len(text.split()), self.meter.current_phase
        self.meter.record(
            Event(self.role, self.model.name, phase, "prefill", new, seconds=random.random()), SHAPE
        )


class Words(Method):
    """Indexes the document's words and answers with the one the question asks for; the question may
    ask for trouble."""

    class Config(MethodConfig):
        index_size: int = index_setting(3, help="Words that the index holds.")
        answer_size: int = setting(1, help="Words of an answer.")

    scope = "document"
    index_roles = ("reader",)

    def __init__(self, config, pause=lambda: None):
        super().__init__(config)
        self.pause = pause
        self.built = []
        self.seen = []

    def prompts(self):
        return {"answer": "Answer: {question}"}

    def index(self, document, tools):
        self.built.append(document.id)
        tools.model().session().feed(document.text)
        draw = random.random()  # a library that draws from the global generator
        return {"words": document.text.split(), "vectors": np.arange(3.0) * draw, "pair": (1, 2)}

    def answer(self, question, documents, indexes, tools):
        self.pause()
        self.seen.append((question, tuple(documents)))
        with tools.phase("search"):
            tools.model().session().feed(question.text)
        tools.model().session().feed(question.text + " please answer")
        trouble(question.text)
        document = documents[0]
        words = indexes[0]["words"]
        indexes[0]["words"] = []  # an index is the method's own copy
        end = len(words[0])
        return Answer(
            text=f"{words[0]} {random.random():.6f}",
            shown=(Shown("span", document.id, 0, end),),
            stop_reason="found",
            steps=(Step("visit", node=0, scores={"total": float(indexes[0]["vectors"][1])}),),
        )


class OutOfMemoryError(RuntimeError):
    """Stands for torch's, which is known by its name."""


def trouble(text):
    if "window" in text:
        raise WindowExceeded("9 tokens do not fit in 8")
    if "bug" in text:
        raise KeyError("no such node")
    if "memory" in text:
        raise MemoryError
    if "gpu" in text:
        raise OutOfMemoryError("CUDA out of memory")
    if "ram" in text:
        raise RuntimeError(
            "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
        )


class Plain(Words):
    """Words without an index."""

    scope = "none"
    traits = Traits(one_document=False)
    index_roles = ()

    def answer(self, question, documents, indexes, tools):
        self.seen.append((question, tuple(documents)))
        trouble(question.text)
        return Answer(
            documents[0].text.split()[0],
            shown=tuple(Shown("span", d.id, 0, len(d.text)) for d in documents),
        )


class Quiet(Words):
    """Words without draws from the global generators, which questions in flight share."""

    def index(self, document, tools):
        self.built.append(document.id)
        tools.model().session().feed(document.text)
        return {"words": document.text.split()}

    def answer(self, question, documents, indexes, tools):
        self.pause()
        with tools.phase("search"):
            tools.model().session().feed(question.text)
        tools.model().session().feed(question.text + " please answer")
        trouble(question.text)
        whole = Shown("span", documents[0].id, 0, len(documents[0].text))
        return Answer(indexes[0]["words"][0], shown=(whole,), stop_reason="found")


@dataclass
class World:
    """The pieces a test may change before it makes a plan."""

    questions: int = 6
    documents: int = 2
    words: tuple[str, ...] = ()
    filler: str = ""

    def dataset(self):
        documents = {
            f"d{n}": Document(
                f"d{n}", f"w{n} alpha beta{self.filler}", passages=(Passage("w", 0, 2),)
            )
            for n in range(self.documents)
        }
        examples = []
        for n in range(self.questions):
            text = self.words[n] if n < len(self.words) else f"question {n}"
            d = f"d{n % self.documents}"
            gold = Gold((f"w{n % self.documents}",), (Support(d, 0, 2),))
            examples.append(Example(Question(f"q{n}", text, (d,)), gold))
        return Dataset(
            "tiny", tuple(examples), documents, json_sha256([self.words, self.documents]), "made up"
        )


def make_plan(dataset=None, method=None, *, limit=None, view="document", seed=0, failed="zero"):
    method = method or Words(Words.Config())
    model = ModelConfig(name="fake", backend="scripted")
    params, asked = method.config.model_dump(), {"instruction": "Answer.", "max_answer_tokens": 8}
    config = RunConfig(
        method=MethodChoice(name="words", implementation="fakes:Words", view=view, params=params),
        dataset=Data(name="tiny", format="tiny", scorers=(SCORER, "evidence_recall"), **asked),
        model=model,
        seed=seed,
        limit=limit,
        failed=failed,
    )
    return PlannedRun(
        config=config,
        origins={"seed": "default"},
        method=method,
        dataset=dataset or World().dataset(),
        task=Task(**asked),
        models={"reader": model},
        encoders={},
        identities={"reader": {"weights": "fake"}},
        hash8="0123abcd",
        folder="tiny/words--fake--0123abcd",
    )


def go(plan, out, command=("harness", "run", "--method", "words"), progress=None, **options):
    """Run with a silent progress, unless one is given."""
    return run(
        plan,
        out,
        command=list(command),
        progress=progress or Silent(),
        options=AskOptions(**options),
    )


def comparable(record):
    """A record, or the values of its line, without what may differ between two runs: seconds."""
    row = record.to_json() if isinstance(record, StoredRecord) else record
    usage = {
        phase: {k: v for k, v in u.items() if k not in ("seconds", "queued")}
        for phase, u in row["usage"].items()
    }
    return {
        **row,
        "usage": usage,
        "notes": {k: v for k, v in row.get("notes", {}).items() if k != "seconds"},
    }
