"""RULER (Hsieh et al., COLM 2024): 13 tasks whose texts are made for any length and tokenizer.

    options: {task: niah_single_2, tokens: 4096, tokenizer: FOLDER, seed: 0, questions: 20, essays:
    FILE, rows: FILE}

Tasks, sentences and sizes are those of the authors' repository (NVIDIA/RULER,
scripts/synthetic.yaml and scripts/data/synthetic). `tokens` covers text, question and answer;
without a tokenizer four characters count as one. What differs: docs/datasets.md#ruler. Where no
files are named, the made-up world gives essays and questions.
"""

import hashlib
import importlib
import itertools
import json
import math
import random
import re
import string
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt
from tokenizers import Tokenizer

from harness.config import registry
from harness.config.schema import DatasetConfig, canonical
from harness.config.yaml_tree import Tree, build
from harness.datasets.base import Dataset
from harness.datasets.files import json_value
from harness.datasets.syllables import ENDINGS, MIDDLES, STARTS
from harness.errors import ConfigError, DataError
from harness.types import Document, Example, Gold, Passage, Question, Support

Task = Literal[
    "niah_single_1", "niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multikey_2", "niah_multikey_3",
    "niah_multivalue", "niah_multiquery", "vt", "cwe", "fwe", "qa_1", "qa_2",
]  # fmt: skip
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
NEEDLE = "One of the special magic {kind} for {key} is: {value}."


class Options(BaseModel):
    """The options of a RULER task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Task = Field(description="one of the 13 tasks")
    tokens: StrictInt = Field(
        default=4096, ge=1, description="length of text, question and answer together"
    )
    tokenizer: str | None = Field(
        default=None, description="folder of the tokenizer that counts; null: characters / 4"
    )
    seed: StrictInt = Field(default=0, description="another seed makes other texts")
    questions: StrictInt = Field(
        default=20, ge=1, description="number of questions, each with a text of its own"
    )
    essays: str | None = Field(
        default=None, description="text file or JSON {text} for the haystack; null: made up"
    )
    rows: str | None = Field(
        default=None, description="SQuAD's or HotpotQA's file for qa_1, qa_2; null: made up"
    )


@dataclass(frozen=True)
class RulerText:
    """A text with its question: `pieces` joined by `gap`.

    marked: indices of the pieces that hold the answers; begins: the reply's beginning, the authors'
    "answer prefix";
    example: a solved question on a text of its own, for the prompt's beginning.
    """

    pieces: Sequence[str]
    marked: Sequence[int]
    gap: str
    question: str
    answers: Sequence[str]
    begins: str = ""
    example: str = ""

    @property
    def text(self) -> str:
        """The pieces joined."""
        return self.gap.join(self.pieces)

    def spans(self, document: str) -> tuple[Support, ...]:
        """The spans of the marked pieces in the text; document: its id."""
        starts = list(
            itertools.accumulate((len(piece) + len(self.gap) for piece in self.pieces), initial=0)
        )
        return tuple(
            Support(document, starts[i], starts[i] + len(self.pieces[i]))
            for i in sorted(self.marked)
        )


@dataclass(frozen=True, slots=True)
class BegunQuestion(Question):
    """A question whose reply begins with given words. A class of its own, as all fields of a
    question are hashed."""

    begins: str = ""


@dataclass(frozen=True, slots=True)
class ExampleQuestion(BegunQuestion):
    """A question with a solved example in front of the prompt."""

    example: str = ""


def _key_or_value(dice: random.Random, kind: str) -> str:
    """Draw a key or value. kind: "numbers" (of seven digits), "uuids", or "words" (two that are
    joined)."""
    if kind == "numbers":
        return str(dice.randint(10**6, 10**7 - 1))
    if kind == "uuids":
        return str(uuid.UUID(int=dice.getrandbits(128), version=4))
    return "-".join(dice.sample(_made_up_words(), 2))


@cache
def _made_up_words() -> list[str]:
    """All words of the syllables, each once."""
    ends = sorted({end for kind in ENDINGS.values() for end in kind})
    return sorted(
        {f"{start}{middle}{end}".lower() for start in STARTS for middle in MIDDLES for end in ends}
    )


@dataclass(frozen=True)
class Niah:
    """Needles (a key and its value) in a haystack. hay: noise, essay or needle; key, value: kinds
    as in _key_or_value; keys, values, asked: numbers of keys, of values of each key, and of keys
    asked for.
    """

    hay: str
    key: str = "words"
    value: str = "numbers"
    keys: int = 1
    values: int = 1
    asked: int = 1

    def make(self, dice: random.Random, size: int, essay: Sequence[str]) -> RulerText:
        """A text with needles, and its question. size: words of an essay, else sentences of hay;
        essay: its words."""
        keys = [_key_or_value(dice, self.key) for _ in range(max(self.keys, self.asked))]
        values = [[_key_or_value(dice, self.value) for _ in range(self.values)] for _ in keys]
        needles = [
            NEEDLE.format(kind=self.value, key=k, value=v)
            for k, vs in zip(keys, values, strict=True)
            for v in vs
        ]
        dice.shuffle(needles)
        if self.hay == "essay":
            words = list(essay) * math.ceil(size / len(essay))
            hay = re.split(r"(?<=[.!?]) ", " ".join(words[:size]))
            places = sorted(
                round(len(hay) * depth / 39) for depth in dice.sample(range(40), len(needles))
            )
        else:
            fresh = partial(NEEDLE.format, kind=self.value)
            hay = [
                NOISE
                if self.hay == "noise"
                else fresh(key=_key_or_value(dice, self.key), value=_key_or_value(dice, self.value))
                for _ in range(size)
            ]
            places = sorted(dice.sample(range(size), len(needles)))
        for i, (place, needle) in enumerate(zip(places, needles, strict=True)):
            hay.insert(place + i, needle)
        chosen = dice.sample(range(len(keys)), self.asked)
        listed = [keys[i] for i in chosen]
        query = ", ".join(listed[:-1]) + ", and " + listed[-1] if len(listed) > 1 else listed[0]
        answers = [value for i in chosen for value in values[i]]
        single = len(answers) == 1
        asked = (
            f"What is the special magic {self.value[:-1]}"
            if single
            else f"What are all the special magic {self.value}"
        )
        question = f"{asked} for {query} mentioned in the provided text?"
        begins = f"The special magic {self.value[: -single or None]} for {query} mentioned in the provided text "
        begins += "is" if single else "are"
        marked = [
            n
            for n, piece in enumerate(hay)
            if any(piece.endswith(f"is: {answer}.") for answer in answers)
        ]
        return RulerText(
            hay, marked, " " if self.hay == "essay" else "\n", question, answers, begins
        )


def _variable_tracking(dice: random.Random, size: int, letters: int = 5) -> RulerText:
    """A chain of five variables (names of `letters`) among `size` sentences of noise; asked for
    those of its value."""
    names: list[str] = []
    while len(names) < 5:
        if (name := "".join(dice.choices(string.ascii_uppercase, k=letters))) not in names:
            names.append(name)
    value = dice.randint(10000, 99998)
    chain = [
        f"VAR {names[0]} = {value}",
        *(f"VAR {b} = VAR {a}" for a, b in itertools.pairwise(names)),
    ]
    pieces = [NOISE] * size
    marked = [place + i for i, place in enumerate(sorted(dice.sample(range(size), len(chain))))]
    for place, line in zip(marked, chain, strict=True):
        pieces.insert(place, line)
    question = f"Find all variables that are assigned the value {value} in the text above."
    begins = (
        "According to the chain(s) of variable assignment in the text above, 5 variables are "
        "assigned the value "
        f"{value}, they are: "
    )
    return RulerText(pieces, marked, "\n", question, names, begins)


def _common_words(dice: random.Random, size: int, repeats: tuple[int, int]) -> RulerText:
    """A list of `size` different words, ten of them common. repeats: how often a common one and
    another one stands."""
    words = dice.sample(_made_up_words(), size)
    listed = words[:10] * repeats[0] + words[10:] * repeats[1]
    dice.shuffle(listed)
    pieces = [f"{number}. {word}" for number, word in enumerate(listed, start=1)]
    question = "What are the 10 most common words in the above list?"
    begins = "The top 10 words that appear most often in the list are:"
    return RulerText(pieces, (), " ", question, words[:10], begins)


def _frequent_words(dice: random.Random, size: int, vocabulary: int) -> RulerText:
    """About `size` of `vocabulary` coded words, by the zeta distribution of exponent 2; the most
    frequent is dots."""
    coded = sorted({"".join(dice.choices(string.ascii_lowercase, k=6)) for _ in range(vocabulary)})
    dice.shuffle(coded)
    coded[0] = "..."
    counts = [int(size * rank**-2.0 / (math.pi**2 / 6)) for rank in range(1, len(coded) + 1)]
    pieces = [word for word, count in zip(coded, counts, strict=True) for _ in range(count)]
    dice.shuffle(pieces)
    question = (
        "Do not provide any explanation. Please ignore the dots '....'. What are the three most "
        "frequently appeared "
        "words in the above coded text?"
    )
    begins = "According to the coded text above, the three most frequently appeared words are:"
    return RulerText(pieces, (), " ", question, coded[1:4], begins)


@dataclass(frozen=True)
class SourceQuestion:
    """A question. shown: paragraphs that stand in every text; near: those that are drawn before all
    others."""

    question: str
    answers: Sequence[str]
    evidence: Sequence[str]
    shown: Sequence[str]
    near: Sequence[str] = ()


def _among_paragraphs(
    dice: random.Random, size: int, question: SourceQuestion, paragraphs: Sequence[str]
) -> RulerText:
    """`question` with a text of `size` paragraphs: those always shown, those near, then others."""
    n_others, own_paragraphs = max(0, size - len(question.shown)), {*question.shown, *question.near}
    near, far = list(question.near), [p for p in paragraphs if p not in own_paragraphs]
    drawn = dice.sample(near, len(near)) + dice.sample(far, min(n_others, len(far)))
    texts = [
        *question.shown,
        *itertools.islice(itertools.cycle(drawn), n_others),
    ]  # again, where there are too few
    dice.shuffle(texts)
    marked = [i for i, text in enumerate(texts) if text in question.evidence]
    pieces = [f"Document {n}:\n{text}" for n, text in enumerate(texts, start=1)]
    return RulerText(pieces, marked, "\n\n", question.question, question.answers)


def _squad_questions(value: Any) -> list[SourceQuestion]:
    """The answerable questions in SQuAD's file, parsed as `value`; near: the other paragraphs of
    their article."""
    questions = []
    for article in value["data"]:
        contexts = list(dict.fromkeys(p["context"] for p in article["paragraphs"]))
        for p in article["paragraphs"]:
            evidence = [p["context"]]
            near = [context for context in contexts if context not in evidence]
            questions += [
                SourceQuestion(
                    qa["question"], [a["text"] for a in qa["answers"]], evidence, evidence, near
                )
                for qa in p["qas"]
                if not qa.get("is_impossible")
            ]
    return questions


def _hotpotqa_questions(value: Any) -> list[SourceQuestion]:
    """The questions in HotpotQA's file, parsed as `value`; evidence: the paragraphs that supporting
    facts name."""
    questions = []
    for row in value:
        texts = {title: f"{title}\n{''.join(sentences)}" for title, sentences in row["context"]}
        evidence = list({texts[title]: 0 for title, _ in row["supporting_facts"]})
        questions.append(
            SourceQuestion(row["question"], [row["answer"]], evidence, list(texts.values()))
        )
    return questions


def _made_up_module(option: str) -> Any:
    """The module that makes texts where `dataset.<option>` names no file. Raises ConfigError
    without it."""
    if (module := registry.shipped("texts").get("world")) is None:
        raise ConfigError(
            [
                (
                    f"dataset.{option}: name a file; made-up texts need the package "
                    "longdoc-harness-pocket"
                )
            ]
        )
    return importlib.import_module(module)


def _questions(options: Options) -> list[SourceQuestion]:
    """The questions of the file, or made-up ones of HotpotQA's kind. Raises DataError."""
    if options.rows is None:
        return _hotpotqa_questions(_made_up_module("rows").hotpotqa_rows(options.seed))
    try:
        value = json_value(Path(options.rows).expanduser())
        return _squad_questions(value) if options.task == "qa_1" else _hotpotqa_questions(value)
    except (KeyError, TypeError, ValueError):
        form = "SQuAD" if options.task == "qa_1" else "HotpotQA"
        raise DataError(
            options.rows, None, None, f"not a file of {form}; name it with dataset.rows"
        ) from None


def _essay(options: Options) -> list[str]:
    """The words of the essays, or of a made-up story. Raises DataError."""
    if options.essays is None:
        return str(_made_up_module("essays").story(options.seed)).split()
    try:
        text = Path(options.essays).expanduser().read_bytes().decode()
        words = (json.loads(text)["text"] if options.essays.endswith(".json") else text).split()
    except (OSError, ValueError, KeyError, TypeError):
        words = []
    if not words:
        raise DataError(
            options.essays, None, None, "should hold the essays as text, or JSON with a key 'text'"
        )
    return words


_NIAH = {
    "niah_single_1": Niah("noise"),
    "niah_single_2": Niah("essay"),
    "niah_single_3": Niah("essay", value="uuids"),
    "niah_multikey_1": Niah("essay", keys=4),
    "niah_multikey_2": Niah("needle"),
    "niah_multikey_3": Niah("needle", key="uuids", value="uuids"),
    "niah_multivalue": Niah("essay", values=4),
    "niah_multiquery": Niah("essay", asked=4),
}


def _text_maker(options: Options) -> tuple[Callable[[random.Random, int, int], RulerText], int]:
    """A function (random draws, size, number of the question) -> text for the task, and its
    smallest size."""
    task = options.task
    if task in _NIAH:
        niah, essay = _NIAH[task], _essay(options) if _NIAH[task].hay == "essay" else ()
        return lambda dice, size, _: niah.make(dice, size, essay), 4
    if task == "vt":
        return lambda dice, size, _: _variable_tracking(dice, size), 5
    if task == "cwe":
        repeats = (30, 3) if options.tokens >= 4096 else (6, 1)
        return lambda dice, size, _: _common_words(dice, size, repeats), 11
    if task == "fwe":
        return lambda dice, size, _: _frequent_words(dice, size, max(options.tokens // 50, 4)), 20
    questions = _questions(options)
    paragraphs = sorted(
        {paragraph for question in questions for paragraph in (*question.shown, *question.near)}
    )
    return lambda dice, size, number: _among_paragraphs(
        dice, size, questions[number % len(questions)], paragraphs
    ), 1


def _token_counter(options: Options) -> Callable[[str], int]:
    """A function: text -> its number of tokens. Raises ConfigError for a folder without a
    tokenizer."""
    if options.tokenizer is None:
        return lambda text: -(-len(text) // 4)
    try:
        tokenizer = Tokenizer.from_file(
            str(Path(options.tokenizer).expanduser() / "tokenizer.json")
        )
    except Exception as error:  # tokenizers raises plain Exception
        raise ConfigError(
            [f"dataset.tokenizer: '{options.tokenizer}' has no tokenizer.json that can be read"]
        ) from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _example_maker(
    config: DatasetConfig, options: Options, count: Callable[[str], int]
) -> Callable[[int], str]:
    """A function: number of a question -> the solved example in front of it; "" for tasks without
    one.

    vt: a chain of names of three letters in as much noise as 500 tokens hold; cwe: a list of 20 or
    40 words.
    """
    if options.task not in ("vt", "cwe"):
        return lambda number: ""

    def example_text(number: int, size: int) -> tuple[RulerText, str]:
        """(the text of an example, the prompt of it up to where its answer begins); size: of the
        text."""
        dice = random.Random(f"{options.task} {options.seed} {number} example")
        if options.task == "vt":
            made, gap = _variable_tracking(dice, size, letters=3), "\n\n"
        else:
            made, gap = _common_words(dice, size, (10, 3) if size == 40 else (3, 1)), "\n"
        return (
            made,
            (
                f"{config.instruction}{gap}{made.text}\nQuestion: {made.question} Answer: "
                f"{made.begins}"
            ),
        )

    size = 40 if options.tokens >= 4096 else 20
    if options.task == "vt":
        size = next(n for n in itertools.count(5) if count(example_text(0, n + 1)[1]) > 500)

    @cache
    def example(number: int) -> str:
        made, text = example_text(number, size)
        if options.task == "vt":
            return f"{text} {' '.join(made.answers)}\n\n"
        return (
            f"{text} {' '.join(f'{n}. {word}' for n, word in enumerate(made.answers, start=1))}\n"
        )

    return example


def _longest_text(config: DatasetConfig, options: Options) -> Callable[[int], RulerText]:
    """A function: number of a question -> its longest text that fits. Raises ConfigError where none
    fits."""
    make, least = _text_maker(options)
    count = _token_counter(options)
    example = _example_maker(config, options, count)

    def text_of_size(number: int, size: int) -> RulerText:
        """The text of question `number` with `size` words, sentences or paragraphs, and its solved
        example."""
        text = make(random.Random(f"{options.task} {options.seed} {number}"), size, number)
        return replace(text, example=example(number))

    def length(made: RulerText) -> int:
        prompt = f"{made.example}{config.instruction}\n{made.text}\n{made.question} {made.begins}".rstrip()
        return count(prompt) + config.max_answer_tokens

    if (needed := length(text_of_size(0, least))) > options.tokens:
        problem = f"a text of '{options.task}' needs {needed} tokens at least with this tokenizer"
        raise ConfigError([f"dataset.tokens: {options.tokens} are too few; {problem}"])
    low, high = least, least * 2
    while high < options.tokens and length(text_of_size(0, high)) <= options.tokens:
        low, high = high, high * 2
    while high - low > max(1, low // 200):
        middle = (low + high) // 2
        low, high = (
            (middle, high) if length(text_of_size(0, middle)) <= options.tokens else (low, middle)
        )

    def fitted(number: int) -> RulerText:
        size = low
        while length(text := text_of_size(number, size)) > options.tokens and size > least:
            size = max(least, size - max(1, size // 50))
        return text

    return fitted


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Make the questions, each with its text; keep the first `limit`. The fingerprint is that of
    those made.

    Raises ConfigError for options and for a length that is too short, DataError for essays and
    question files.
    """
    fields = [
        name for name in ("data", "hub", "subset", "revision") if getattr(config, name) is not None
    ]
    if fields:
        raise ConfigError(
            [f"dataset.{name}: '{config.name}' is made, not read; leave it out" for name in fields]
        )
    options = build(Options, Tree([("", config.options)]), "dataset")
    fitted = _longest_text(config, options)
    kept = options.questions if limit is None else min(limit, options.questions)
    examples, documents = [], {}
    hashed = hashlib.sha256(
        canonical(["ruler 1", config.instruction, options.model_dump()]).encode()
    )
    for number in range(kept):
        made = fitted(number)
        document = f"{options.task}-{options.tokens}-{options.seed}-{number}"
        question = Question(f"{document}-q", made.question, (document,))
        if made.begins:
            question = BegunQuestion(question.id, question.text, (document,), begins=made.begins)
        if made.example:
            question = ExampleQuestion(
                question.id, question.text, (document,), None, made.begins, made.example
            )
        examples.append(
            Example(
                question, Gold(tuple(made.answers), made.spans(document), {"type": options.task})
            )
        )
        text = made.text
        documents[document] = Document(document, text, passages=(Passage("", 0, len(text)),))
        hashed.update(canonical([examples[-1], text]).encode())
    niah = _NIAH.get(options.task)
    file = (
        "rows"
        if options.task.startswith("qa_")
        else "essays"
        if niah and niah.hay == "essay"
        else ""
    )
    tail = f", made-up {file}" if file and getattr(options, file) is None else ""
    source = f"made by RULER's recipe: {options.task}, {options.tokens} tokens, seed {options.seed}{tail}"
    return Dataset(
        config.name, tuple(examples), documents, hashed.hexdigest(), source, rows=options.questions
    )
