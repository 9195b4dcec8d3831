"""RULER (Hsieh et al., COLM 2024): 13 tasks whose texts are made for any length and tokenizer.

    options: {task: niah_single_2, tokens: 4096, tokenizer: FOLDER, seed: 0, questions: 20, essays: FILE, rows: FILE}

Tasks, sentences and sizes are those of the authors' repository (NVIDIA/RULER,
scripts/synthetic.yaml and scripts/data/synthetic). `tokens` covers the shared prompt with text,
question and solved example, and the answer; without a tokenizer four characters count as one. What
differs: docs/datasets.md#ruler. Where no files are named, the made-up world gives essays and
questions.
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
from functools import cache, cached_property
from pathlib import Path
from typing import Literal, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, StrictInt
from tokenizers import Tokenizer

from harness.config import registry
from harness.config.schema import DatasetConfig, canonical_json
from harness.config.yaml_tree import Tree, validate_tree
from harness.datasets import hotpotqa
from harness.datasets.base import Dataset
from harness.datasets.files import read_json_value
from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import RowError, StrictRow, as_object
from harness.datasets.syllables import ENDINGS, MIDDLES, STARTS
from harness.errors import ConfigError, DataError
from harness.method.reading_prompt import ANSWER
from harness.types import Document, Example, Gold, Passage, Question, Support

Task = Literal[
    "niah_single_1", "niah_single_2", "niah_single_3", "niah_multikey_1", "niah_multikey_2", "niah_multikey_3",
    "niah_multivalue", "niah_multiquery", "vt", "cwe", "fwe", "qa_1", "qa_2",
]  # fmt: skip
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
VT_ANSWER_TOKENS = 30  # of a reply to vt
NEEDLE = "One of the special magic {kind} for {key} is: {value}."


class Options(BaseModel):
    """The options of a RULER task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Task = Field(description="one of the 13 tasks")
    tokens: StrictInt = Field(
        default=4096, ge=1, description="length of the prompt with its text, and the answer"
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
    """A text with its question.

    Attributes:
        pieces: The parts of the text.
        marked: The indices of the pieces that hold the answers.
        gap: What joins the pieces.
        question: The question.
        answers: The accepted answers.
        begins: How the reply begins, the authors' "answer prefix".
        example: A solved question on a text of its own, for the prompt's beginning.
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
        """The whole text: the pieces, joined by `gap`."""
        return self.gap.join(self.pieces)

    def spans(self, document: str) -> tuple[Support, ...]:
        """The spans of the marked pieces in the text, in its order.

        pieces ["aa", "b"], gap " ", marked [1] -> (Support(document, 3, 4),)

        Args:
            document: The id of the document that the text becomes.
        """
        spans = []
        start = 0
        for place, piece in enumerate(self.pieces):
            if place in self.marked:
                spans.append(Support(document, start, start + len(piece)))
            start += len(piece) + len(self.gap)
        return tuple(spans)


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
    """Draw a key or a value of a needle.

    Args:
        dice: The random numbers.
        kind: "numbers" (of seven digits), "uuids", or "words" (two that are joined by "-").
    """
    if kind == "numbers":
        return str(dice.randint(10**6, 10**7 - 1))
    if kind == "uuids":
        return str(uuid.UUID(int=dice.getrandbits(128), version=4))
    return "-".join(dice.sample(_made_up_words(), 2))


@cache
def _made_up_words() -> list[str]:
    """All words that the syllables can form, in small letters, sorted, each once."""
    ends: set[str] = set()
    for endings in ENDINGS.values():
        ends.update(endings)
    syllables = itertools.product(STARTS, MIDDLES, ends)
    return sorted({"".join(parts).lower() for parts in syllables})


@dataclass(frozen=True)
class Niah:
    """Needles (a key and its value) in a haystack.

    Attributes:
        hay: "noise", "essay" or "needle".
        key: The kind of the keys, as in _key_or_value.
        value: The kind of the values, as in _key_or_value.
        keys: How many keys there are.
        values: How many values each key has.
        asked: How many keys are asked for.
    """

    hay: str
    key: str = "words"
    value: str = "numbers"
    keys: int = 1
    values: int = 1
    asked: int = 1

    def make(self, dice: random.Random, size: int, essay: Sequence[str]) -> RulerText:
        """Make a text with needles in a haystack, and its question.

        Args:
            dice: Draws keys, values and places.
            size: The number of words of an essay, else of sentences of hay.
            essay: The words of the essays; not used with other hay.
        """
        values_by_key = self._values_by_key(dice)
        needles = self._needles(dice, values_by_key)
        if self.hay == "essay":
            pieces, places = self._essay_hay(dice, size, essay, len(needles))
        else:
            pieces = [self._hay_sentence(dice) for _ in range(size)]
            places = sorted(dice.sample(range(size), len(needles)))
        for earlier, (place, needle) in enumerate(zip(places, needles, strict=True)):
            pieces.insert(place + earlier, needle)
        return self._text_with_question(dice, pieces, values_by_key)

    def _values_by_key(self, dice: random.Random) -> list[tuple[str, list[str]]]:
        """Draw (key, its values) for each key: [("tall-mill", ["4821973"])]."""
        keys = [_key_or_value(dice, self.key) for _ in range(max(self.keys, self.asked))]
        values_by_key = []
        for key in keys:
            values = [_key_or_value(dice, self.value) for _ in range(self.values)]
            values_by_key.append((key, values))
        return values_by_key

    def _needles(
        self, dice: random.Random, values_by_key: Sequence[tuple[str, list[str]]]
    ) -> list[str]:
        """A sentence for each key and value, in a random order.

        "One of the special magic numbers for tall-mill is: 4821973."

        Args:
            dice: Draws the order.
            values_by_key: (key, its values).
        """
        needles = []
        for key, values in values_by_key:
            needles += [NEEDLE.format(kind=self.value, key=key, value=value) for value in values]
        dice.shuffle(needles)
        return needles

    def _essay_hay(
        self, dice: random.Random, size: int, essay: Sequence[str], count: int
    ) -> tuple[list[str], list[int]]:
        """Cut an essay into sentences, and draw the places of needles among them.

        Args:
            dice: Draws the places, different ones of 40 depths.
            size: How many words are taken of the essay, which is repeated if it has fewer.
            essay: The words of the essays.
            count: The number of needles.

        Returns:
            The sentences; and for each needle how many of them come before it, in order.
        """
        words = list(essay) * math.ceil(size / len(essay))
        sentences = re.split(r"(?<=[.!?]) ", " ".join(words[:size]))
        depths = dice.sample(range(40), count)
        return sentences, sorted(round(len(sentences) * depth / 39) for depth in depths)

    def _hay_sentence(self, dice: random.Random) -> str:
        """A sentence of hay: noise, or a needle that nobody asks for, with a key and a value
        drawn for it.
        """
        if self.hay == "noise":
            return NOISE
        key = _key_or_value(dice, self.key)
        return NEEDLE.format(kind=self.value, key=key, value=_key_or_value(dice, self.value))

    def _text_with_question(
        self,
        dice: random.Random,
        pieces: Sequence[str],
        values_by_key: Sequence[tuple[str, list[str]]],
    ) -> RulerText:
        """Make the question about some of a text's keys, and mark the sentences that answer it.

        Args:
            dice: Draws the keys that are asked for.
            pieces: The sentences of the text, needles included.
            values_by_key: (key, its values) of all needles.
        """
        keys = []
        answers: list[str] = []
        for key, values in dice.sample(values_by_key, self.asked):
            keys.append(key)
            answers += values
        query = keys[0]
        if len(keys) > 1:
            query = f"{', '.join(keys[:-1])}, and {keys[-1]}"
        if len(answers) == 1:
            one = self.value[:-1]
            question = (
                f"What is the special magic {one} for {query} mentioned in the provided text?"
            )
            begins = f"The special magic {one} for {query} mentioned in the provided text is"
        else:
            question = (
                f"What are all the special magic {self.value} for {query} mentioned in the "
                "provided text?"
            )
            begins = (
                f"The special magic {self.value} for {query} mentioned in the provided text are"
            )
        endings = tuple(f"is: {answer}." for answer in answers)
        marked = [place for place, piece in enumerate(pieces) if piece.endswith(endings)]
        gap = "\n"
        if self.hay == "essay":
            gap = " "
        return RulerText(pieces, marked, gap, question, answers, begins)


def _variable_names(dice: random.Random, letters: int) -> list[str]:
    """Draw five different names of so many capital letters: ["XKPQA", ...]."""
    names: list[str] = []
    while len(names) < 5:
        name = "".join(dice.choices(string.ascii_uppercase, k=letters))
        if name not in names:
            names.append(name)
    return names


def _variable_tracking(dice: random.Random, size: int, letters: int = 5) -> RulerText:
    """Make a chain of five variables among sentences of noise; the question asks which have its
    value.

    "VAR AB = 123", "VAR CD = VAR AB", ...

    Args:
        dice: Draws names, value and places.
        size: The number of sentences of noise.
        letters: The number of letters of a variable's name.
    """
    names = _variable_names(dice, letters)
    value = dice.randint(10000, 99998)
    chain = [f"VAR {names[0]} = {value}"]
    chain += [f"VAR {later} = VAR {earlier}" for earlier, later in itertools.pairwise(names)]
    noise_places = sorted(dice.sample(range(size), len(chain)))
    # Each line of the chain stands further back by the lines of the chain before it.
    places = [place + lines_before for lines_before, place in enumerate(noise_places)]
    pieces = [NOISE] * size
    for place, line in zip(places, chain, strict=True):
        pieces.insert(place, line)
    question = f"Find all variables that are assigned the value {value} in the text above."
    begins = (
        "According to the chain(s) of variable assignment in the text above, 5 variables are "
        f"assigned the value {value}, they are: "
    )
    return RulerText(pieces, places, "\n", question, names, begins)


def _common_words(dice: random.Random, size: int, repeats: tuple[int, int]) -> RulerText:
    """Make a numbered list of words, ten of them common; the question asks which these are.

    Args:
        dice: Draws the words and their order.
        size: The number of different words.
        repeats: How often a common word stands in the list, and how often any other.
    """
    words = dice.sample(_made_up_words(), size)
    listed = words[:10] * repeats[0] + words[10:] * repeats[1]
    dice.shuffle(listed)
    pieces = [f"{number}. {word}" for number, word in enumerate(listed, start=1)]
    question = "What are the 10 most common words in the above list?"
    begins = "The top 10 words that appear most often in the list are:"
    return RulerText(pieces, (), " ", question, words[:10], begins)


def _frequent_words(dice: random.Random, size: int, vocabulary: int) -> RulerText:
    """Make a text of coded words by the zeta distribution of exponent 2; the question asks for the
    three most frequent ones after the dots.

    Args:
        dice: Draws the words and their order.
        size: About how many words the text has.
        vocabulary: The number of different words.
    """
    different_words: set[str] = set()
    for _ in range(vocabulary):
        different_words.add("".join(dice.choices(string.ascii_lowercase, k=6)))
    coded = sorted(different_words)
    dice.shuffle(coded)
    coded[0] = "..."  # the most frequent "word"
    pieces: list[str] = []
    for rank, word in enumerate(coded, start=1):
        count = int(size * rank**-2.0 / (math.pi**2 / 6))
        pieces += itertools.repeat(word, count)
    dice.shuffle(pieces)
    question = (
        "Do not provide any explanation. Please ignore the dots '....'. What are the three most "
        "frequently appeared words in the above coded text?"
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
    """Make a text of `size` paragraphs for a question: its supporting ones, near ones, then
    others.

    Args:
        dice: Draws the others and the order.
        size: The number of paragraphs.
        question: The question as its file has it.
        paragraphs: The paragraphs of all questions, of which the others are drawn.
    """
    n_others = max(0, size - len(question.shown))
    own_paragraphs = {*question.shown, *question.near}
    far = [paragraph for paragraph in paragraphs if paragraph not in own_paragraphs]
    drawn = dice.sample(list(question.near), len(question.near))
    drawn += dice.sample(far, min(n_others, len(far)))
    # Where there are too few, they come again.
    others = itertools.islice(itertools.cycle(drawn), n_others)
    texts = [*question.shown, *others]
    dice.shuffle(texts)
    marked = [place for place, text in enumerate(texts) if text in question.evidence]
    pieces = [f"Document {number}:\n{text}" for number, text in enumerate(texts, start=1)]
    return RulerText(pieces, marked, "\n\n", question.question, question.answers)


class _SquadAnswer(StrictRow):
    text: str


class _SquadQuestion(StrictRow):
    question: str
    answers: list[_SquadAnswer]
    is_impossible: bool = False


class _SquadParagraph(StrictRow):
    context: str
    qas: list[_SquadQuestion]


class _SquadArticle(StrictRow):
    paragraphs: list[_SquadParagraph]


class _SquadFile(StrictRow):
    """{"data": [{"paragraphs": [{"context": "..", "qas": [{"question": "..", "answers":
    [{"text": ".."}]}]}]}]}"""

    data: list[_SquadArticle]


def _squad_questions(value: object) -> list[SourceQuestion]:
    """The answerable questions in SQuAD's file, with the other paragraphs of their article as
    `near`.

    Args:
        value: The parsed file.

    Raises:
        RowError: It has another form.
    """
    questions: list[SourceQuestion] = []
    for article in _SquadFile.read(as_object(value)).data:
        contexts = list(dict.fromkeys(paragraph.context for paragraph in article.paragraphs))
        for paragraph in article.paragraphs:
            evidence = [paragraph.context]
            near = [context for context in contexts if context not in evidence]
            for asked in paragraph.qas:
                answers = [answer.text for answer in asked.answers]
                if not asked.is_impossible:
                    questions.append(
                        SourceQuestion(asked.question, answers, evidence, evidence, near)
                    )
    return questions


def _hotpotqa_questions(value: object) -> list[SourceQuestion]:
    """The questions in HotpotQA's file, with the paragraphs that supporting facts name as
    `evidence`.

    Args:
        value: The parsed file.

    Raises:
        RowError: It has another form.
    """
    if not isinstance(value, list):
        raise RowError(None, "should be a list")
    questions: list[SourceQuestion] = []
    for raw in value:
        row = hotpotqa.parse_row(as_object(raw))
        texts = {title: f"{title}\n{text}" for title, text in row.paragraphs}
        titles = [row.paragraphs[place][0] for place in row.supporting]
        evidence = [texts[title] for title in dict.fromkeys(titles)]
        shown = list(texts.values())
        questions.append(SourceQuestion(row.question, row.answers, evidence, shown))
    return questions


class _MadeUpTexts(Protocol):
    """A module that makes texts up."""

    def hotpotqa_rows(self, seed: int) -> list[RawRow]:
        """Make rows up, in the form of HotpotQA's file."""

    def story(self, seed: int) -> str:
        """Make a long text up."""


def _made_up_module(option: str) -> _MadeUpTexts:
    """The module that makes texts up where no file is named.

    Args:
        option: The option that would name a file, "rows" or "essays", for the error.

    Raises:
        ConfigError: The package that brings it is not installed.
    """
    module = registry.targets("texts").get("world")
    if module is None:
        sentence = "name a file; made-up texts need the package longdoc-harness-pocket"
        raise ConfigError([f"dataset.{option}: {sentence}"])
    return cast(_MadeUpTexts, importlib.import_module(module))


def _questions(options: Options) -> list[SourceQuestion]:
    """The questions of the file that dataset.rows names, or made-up ones of HotpotQA's kind.

    Raises DataError for a file of another form: SQuAD's is needed for qa_1, HotpotQA's for qa_2.
    """
    if options.rows is None:
        return _hotpotqa_questions(_made_up_module("rows").hotpotqa_rows(options.seed))
    form = "HotpotQA"
    parse = _hotpotqa_questions
    if options.task == "qa_1":
        form = "SQuAD"
        parse = _squad_questions
    try:
        return parse(read_json_value(Path(options.rows).expanduser()))
    except RowError:
        problem = f"not a file of {form}; name it with dataset.rows"
        raise DataError(options.rows, None, None, problem) from None


def _essay(options: Options) -> list[str]:
    """The words of the file of essays that dataset.essays names, or of a made-up story.

    Raises DataError for a file without a text.
    """
    if options.essays is None:
        return str(_made_up_module("essays").story(options.seed)).split()
    try:
        words = _essay_text(options.essays).split()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        words = []
    if not words:
        raise DataError(
            options.essays, None, None, "should hold the essays as text, or JSON with a key 'text'"
        )
    return words


def _essay_text(file: str) -> str:
    """The text of a file of essays; of a JSON file the text under its key "text"."""
    text = Path(file).expanduser().read_bytes().decode()
    if not file.endswith(".json"):
        return text
    in_json: str = json.loads(text)["text"]
    return in_json


def _all_paragraphs(questions: Sequence[SourceQuestion]) -> list[str]:
    """The paragraphs that belong to any of the questions, each once, sorted."""
    paragraphs: set[str] = set()
    for question in questions:
        paragraphs.update(question.shown)
        paragraphs.update(question.near)
    return sorted(paragraphs)


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


@dataclass(frozen=True)
class TextMaker:
    """Makes the texts of a task.

    Attributes:
        make: (random draws, size, number of the question) -> text.
        least: The smallest size.
    """

    make: Callable[[random.Random, int, int], RulerText]
    least: int


def _text_maker(options: Options) -> TextMaker:
    """Choose what makes the texts of the task, with the smallest size that it can make."""
    task = options.task
    niah = _NIAH.get(task)
    if niah is not None:
        essay: Sequence[str] = ()
        if niah.hay == "essay":
            essay = _essay(options)
        # The number of the question matters only where texts are made of source questions.
        return TextMaker(lambda dice, size, _: niah.make(dice, size, essay), 4)
    if task == "vt":
        return TextMaker(lambda dice, size, _: _variable_tracking(dice, size), 5)
    if task == "cwe":
        repeats = (6, 1)
        if options.tokens >= 4096:
            repeats = (30, 3)
        return TextMaker(lambda dice, size, _: _common_words(dice, size, repeats), 11)
    if task == "fwe":
        vocabulary = max(options.tokens // 50, 4)
        return TextMaker(lambda dice, size, _: _frequent_words(dice, size, vocabulary), 20)
    questions = _questions(options)
    paragraphs = _all_paragraphs(questions)

    def among_paragraphs(dice: random.Random, size: int, number: int) -> RulerText:
        """Make the text of a question, by its number; after the last question comes the first
        again.
        """
        question = questions[number % len(questions)]
        return _among_paragraphs(dice, size, question, paragraphs)

    return TextMaker(among_paragraphs, 1)


def _prompt(made: RulerText, instruction: str) -> list[str]:
    """The pieces of the prompt for a text, up to where the answer goes on.

    Args:
        made: The text with its question.
        instruction: The data set's instruction.
    """
    pieces: list[str] = ANSWER.fill(
        instruction=instruction, text=[made.text], question=made.question, options=""
    )
    if made.begins:
        pieces.append(f" {made.begins}")
    return pieces


@dataclass(frozen=True)
class _ExampleMaker:
    """Makes the solved example in front of a question, in the form of the question's own prompt: vt,
    a chain of names of three letters in as much noise as 500 tokens hold; cwe, a list of 20 or 40
    words; "" for the other tasks."""

    options: Options
    instruction: str
    count: Callable[[str], int]

    def __call__(self, number: int) -> str:
        """The solved example in front of a question, by the question's number; "" for tasks
        without one.
        """
        if self.options.task == "vt":
            return f"{self._solved(self._made(number, self._vt_size))}\n\n"
        if self.options.task == "cwe":
            return f"{self._solved(self._made(number, self._cwe_size))}\n\n"
        return ""

    @property
    def _cwe_size(self) -> int:
        """The number of different words of an example of cwe: 40 for long texts, else 20."""
        if self.options.tokens >= 4096:
            return 40
        return 20

    @cached_property
    def _vt_size(self) -> int:
        """The sentences of noise, a multiple of 5, with which prompt and answer still have 500
        tokens."""
        size = 5
        while self.count(self._solved(self._made(0, size + 5))) + VT_ANSWER_TOKENS <= 500:
            size += 5
        return size

    def _made(self, number: int, size: int) -> RulerText:
        """The text of an example.

        Args:
            number: The number of the question that it stands in front of.
            size: The number of sentences of noise (vt) or of words (cwe).
        """
        dice = random.Random(f"{self.options.task} {self.options.seed} {number} example")
        if self.options.task == "vt":
            return _variable_tracking(dice, size, letters=3)
        repeats = (3, 1)
        if size == 40:
            repeats = (10, 3)
        return _common_words(dice, size, repeats)

    def _solved(self, made: RulerText) -> str:
        """The prompt of an example, followed by its answers."""
        answers = list(made.answers)
        if self.options.task == "cwe":
            answers = [f"{place}. {word}" for place, word in enumerate(answers, start=1)]
        prompt = "".join(_prompt(made, self.instruction)).rstrip()
        return f"{prompt} {' '.join(answers)}"


class _LongestTexts:
    """The longest text of each question that fits into `dataset.tokens`."""

    def __init__(self, config: DatasetConfig, options: Options) -> None:
        """Find the size at which the first question's text still fits, as `_size`.

        `_maker` makes texts, `_count` counts tokens, `_example` makes the example of a question.

        Raises ConfigError where no text fits.
        """
        self._config = config
        self._options = options
        self._maker = _text_maker(options)
        self._count = _token_counter(options)
        self._example = cache(_ExampleMaker(options, config.instruction, self._count))
        self._size = self._largest_size()

    def text(self, number: int) -> RulerText:
        """The longest text of a question, by its number, that fits.

        It has the size of the first question's text, or a smaller one where its own is longer.
        """
        size = self._size
        text = self._text_of_size(number, size)
        while not self._fits(text) and size > self._maker.least:
            size = max(self._maker.least, size - max(1, size // 50))
            text = self._text_of_size(number, size)
        return text

    def _text_of_size(self, number: int, size: int) -> RulerText:
        """Make the text of a question with its solved example.

        Args:
            number: The number of the question, which seeds all draws.
            size: The number of words, sentences or paragraphs.
        """
        dice = random.Random(f"{self._options.task} {self._options.seed} {number}")
        return replace(self._maker.make(dice, size, number), example=self._example(number))

    def _length(self, made: RulerText) -> int:
        """The tokens of the prompt for a text, encoded in pieces as a model reads it, and of
        the answer.
        """
        first, *others = _prompt(made, self._config.instruction)
        pieces = [made.example + first, *others]
        return sum(map(self._count, pieces)) + self._config.max_answer_tokens

    def _fits(self, made: RulerText) -> bool:
        """Whether the prompt for a text and the answer have at most dataset.tokens tokens."""
        return self._length(made) <= self._options.tokens

    def _largest_size(self) -> int:
        """The largest size, to half a percent, at which the text of the first question fits.

        Raises ConfigError where not even the smallest does.
        """
        least = self._maker.least
        tokens = self._options.tokens
        needed = self._length(self._text_of_size(0, least))
        if needed > tokens:
            task = self._options.task
            problem = f"a text of '{task}' needs {needed} tokens at least with this tokenizer"
            raise ConfigError([f"dataset.tokens: {tokens} are too few; {problem}"])
        low = least
        high = least * 2
        while high < tokens and self._fits(self._text_of_size(0, high)):
            low = high
            high = high * 2
        while high - low > max(1, low // 200):
            middle = (low + high) // 2
            if self._fits(self._text_of_size(0, middle)):
                low = middle
            else:
                high = middle
        return low


def _question_of(made: RulerText, document: str) -> Question:
    """The question of a text.

    Args:
        made: The text.
        document: The id of its document; the question's is "DOCUMENT-q".
    """
    question_id = f"{document}-q"
    if made.example:
        return ExampleQuestion(
            question_id, made.question, (document,), None, made.begins, made.example
        )
    if made.begins:
        return BegunQuestion(question_id, made.question, (document,), begins=made.begins)
    return Question(question_id, made.question, (document,))


def _source(options: Options) -> str:
    """Where the texts come from, for the manifest: "made by RULER's recipe: vt, 4096 tokens,
    seed 0".
    """
    source = f"made by RULER's recipe: {options.task}, {options.tokens} tokens, seed {options.seed}"
    niah = _NIAH.get(options.task)
    if options.task.startswith("qa_") and options.rows is None:
        source += ", made-up rows"
    if niah is not None and niah.hay == "essay" and options.essays is None:
        source += ", made-up essays"
    return source


def _refuse_settings_of_rows(config: DatasetConfig) -> None:
    """Raise ConfigError for settings that say where rows are read from, as texts are made here."""
    problems = [
        f"dataset.{name}: '{config.name}' is made, not read; leave it out"
        for name in ("data", "hub", "subset", "revision")
        if getattr(config, name) is not None
    ]
    if problems:
        raise ConfigError(problems)


def _token_counter(options: Options) -> Callable[[str], int]:
    """Return a function that counts the tokens of a text, by the tokenizer or as characters / 4.

    Raises ConfigError for a folder without a tokenizer.
    """
    if options.tokenizer is None:
        return lambda text: math.ceil(len(text) / 4)
    try:
        tokenizer = Tokenizer.from_file(
            str(Path(options.tokenizer).expanduser() / "tokenizer.json")
        )
    except Exception as error:  # tokenizers raises plain Exception
        raise ConfigError(
            [f"dataset.tokenizer: '{options.tokenizer}' has no tokenizer.json that can be read"]
        ) from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Make the questions, each with its text; keep the first `limit` (None: all).

    The fingerprint is that of the questions made.

    Raises:
        ConfigError: The options are malformed, or the length is too short for any text.
        DataError: A file of essays or questions cannot be used.
    """
    _refuse_settings_of_rows(config)
    options = validate_tree(Options, Tree([("", config.options)]), "dataset")
    texts = _LongestTexts(config, options)
    number_made = options.questions
    if limit is not None:
        number_made = min(limit, options.questions)
    examples: list[Example] = []
    documents: dict[str, Document] = {}
    settings = canonical_json(["ruler 2", config.instruction, options.model_dump()])
    hashed = hashlib.sha256(settings.encode())
    for number in range(number_made):
        made = texts.text(number)
        document = f"{options.task}-{options.tokens}-{options.seed}-{number}"
        gold = Gold(tuple(made.answers), made.spans(document), {"type": options.task})
        example = Example(_question_of(made, document), gold)
        examples.append(example)
        text = made.text
        documents[document] = Document(document, text, passages=(Passage("", 0, len(text)),))
        hashed.update(canonical_json([example, text]).encode())
    return Dataset(
        config.name,
        tuple(examples),
        documents,
        hashed.hexdigest(),
        _source(options),
        rows=options.questions,
    )
