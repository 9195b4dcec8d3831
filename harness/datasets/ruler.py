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
from typing import Literal, NamedTuple, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, StrictInt
from tokenizers import Tokenizer

from harness.config import registry
from harness.config.schema import DatasetConfig, canonical_json
from harness.datasets import hotpotqa
from harness.datasets.base import Dataset, parse_options
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
_CHARACTERS_PER_TOKEN = 4  # where no tokenizer is named
_LONG_TEXT_TOKENS = 4096  # from here on the authors' sizes of cwe are the larger ones
_DEPTHS = 40  # at which needles stand in an essay, 0 to 39
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
        pieces: The sentences, words or paragraphs of the text.
        supporting: The indices of the pieces that hold the answers.
        separator: What joins the pieces.
        question: The question.
        answers: The accepted answers.
        reply_start: How the reply begins, the authors' "answer prefix".
        solved_example: A solved question on a text of its own, for the prompt's beginning.
    """

    pieces: Sequence[str]
    supporting: Sequence[int]
    separator: str
    question: str
    answers: Sequence[str]
    reply_start: str = ""
    solved_example: str = ""

    @property
    def text(self) -> str:
        """The whole text: the pieces, joined by `separator`."""
        return self.separator.join(self.pieces)

    def supporting_spans(self, document_id: str) -> tuple[Support, ...]:
        """The spans of the supporting pieces in the text, in its order.

        pieces ["aa", "b"], separator " ", supporting [1] -> (Support(document_id, 3, 4),)

        Args:
            document_id: The id of the document that the text becomes.
        """
        spans = []
        start = 0
        for index, piece in enumerate(self.pieces):
            end = start + len(piece)
            if index in self.supporting:
                spans.append(Support(document_id, start, end))
            start = end + len(self.separator)
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


NeedleKind = Literal["numbers", "uuids", "words"]
"""What a key or a value of a needle is: a number of seven digits, a UUID, or two words joined by
"-"."""


class _QuestionAndReplyStart(NamedTuple):
    """The words of a question, and how its reply begins."""

    question: str
    reply_start: str


class _KeyWithValues(NamedTuple):
    """A key of needles, and all its values."""

    key: str
    values: list[str]


def _draw_key_or_value(dice: random.Random, kind: NeedleKind) -> str:
    """Draw a key or a value of a needle: "4821973" of the kind "numbers", a UUID of "uuids",
    "tall-mill" of "words".

    Args:
        dice: The random numbers.
        kind: The kind.
    """
    if kind == "numbers":
        return str(dice.randint(10**6, 10**7 - 1))
    if kind == "uuids":
        return str(uuid.UUID(int=dice.getrandbits(128), version=4))
    return "-".join(dice.sample(_made_up_words(), 2))


@cache
def _made_up_words() -> list[str]:
    """All words that the syllables can form, in small letters, sorted, each once."""
    all_endings: set[str] = set()
    for endings_of_kind in ENDINGS.values():
        all_endings.update(endings_of_kind)
    syllables_of_words = itertools.product(STARTS, MIDDLES, all_endings)
    return sorted({"".join(syllables).lower() for syllables in syllables_of_words})


@dataclass(frozen=True)
class Niah:
    """Needles (a key and its value) in a haystack.

    Attributes:
        hay: What the needles are hidden in: one sentence over and over, an essay, or needles that
            nobody asks for.
        key_kind: What the keys are.
        value_kind: What the values are.
        n_keys: How many keys there are.
        values_per_key: How many values each key has.
        n_asked_keys: How many keys the question asks for.
    """

    hay: Literal["noise", "essay", "needle"]
    key_kind: NeedleKind = "words"
    value_kind: NeedleKind = "numbers"
    n_keys: int = 1
    values_per_key: int = 1
    n_asked_keys: int = 1

    def make_text(self, dice: random.Random, size: int, essay: Sequence[str]) -> RulerText:
        """Make a text with needles in a haystack, and its question.

        Args:
            dice: Draws keys, values and places.
            size: The number of words of an essay, else of sentences of hay.
            essay: The words of the essays; not used with other hay.
        """
        keys_with_values = self._draw_keys_with_values(dice)
        needles = self._needle_sentences(dice, keys_with_values)
        if self.hay == "essay":
            pieces = _cut_into_sentences(essay, size)
            sentences_before = _draw_places_in_essay(dice, len(pieces), len(needles))
        else:
            pieces = [self._hay_sentence(dice) for _ in range(size)]
            sentences_before = sorted(dice.sample(range(size), len(needles)))
        pairs = zip(sentences_before, needles, strict=True)
        for needles_before, (hay_before, needle) in enumerate(pairs):
            pieces.insert(hay_before + needles_before, needle)  # each needle moves the rest by one
        return self._text_with_question(dice, pieces, keys_with_values)

    def _draw_keys_with_values(self, dice: random.Random) -> list[_KeyWithValues]:
        """Draw the keys and the values of each: [("tall-mill", ["4821973"])]."""
        n_keys = max(self.n_keys, self.n_asked_keys)
        keys = [_draw_key_or_value(dice, self.key_kind) for _ in range(n_keys)]
        keys_with_values = []
        for key in keys:
            values = [_draw_key_or_value(dice, self.value_kind) for _ in range(self.values_per_key)]
            keys_with_values.append(_KeyWithValues(key, values))
        return keys_with_values

    def _needle_sentences(
        self, dice: random.Random, keys_with_values: Sequence[_KeyWithValues]
    ) -> list[str]:
        """A sentence for each key and value, in a random order.

        "One of the special magic numbers for tall-mill is: 4821973."

        Args:
            dice: Draws the order.
            keys_with_values: The keys with their values.
        """
        needles = []
        for key, values in keys_with_values:
            needles += [self._needle_sentence(key, value) for value in values]
        dice.shuffle(needles)
        return needles

    def _needle_sentence(self, key: str, value: str) -> str:
        """The sentence that gives a key its value."""
        return NEEDLE.format(kind=self.value_kind, key=key, value=value)

    def _hay_sentence(self, dice: random.Random) -> str:
        """A sentence of hay: noise, or a needle that nobody asks for, with a key and a value
        drawn for it.
        """
        if self.hay == "noise":
            return NOISE
        key = _draw_key_or_value(dice, self.key_kind)
        value = _draw_key_or_value(dice, self.value_kind)
        return self._needle_sentence(key, value)

    def _text_with_question(
        self,
        dice: random.Random,
        pieces: Sequence[str],
        keys_with_values: Sequence[_KeyWithValues],
    ) -> RulerText:
        """Make the question about some of a text's keys, drawn for it, and mark the sentences that
        answer it: those that end with one of the values, "is: 4821973."

        Args:
            dice: Draws the keys that are asked for.
            pieces: The sentences of the text, needles included.
            keys_with_values: The keys of all needles, with their values.
        """
        asked_keys = []
        answers: list[str] = []
        for key, values in dice.sample(keys_with_values, self.n_asked_keys):
            asked_keys.append(key)
            answers += values
        question, reply_start = self._question_and_reply_start(asked_keys, len(answers))
        endings_with_answer = tuple(f"is: {answer}." for answer in answers)
        supporting = []
        for index, piece in enumerate(pieces):
            if piece.endswith(endings_with_answer):
                supporting.append(index)
        separator = "\n"
        if self.hay == "essay":
            separator = " "
        return RulerText(pieces, supporting, separator, question, answers, reply_start)

    def _question_and_reply_start(
        self, asked_keys: Sequence[str], n_answers: int
    ) -> _QuestionAndReplyStart:
        """The question about some keys: "What is the special magic number for tall-mill mentioned
        in the provided text?"; and the start of its reply, "The special magic number for ... is".

        Args:
            asked_keys: The keys, at least one: "a, b, and c" of several.
            n_answers: How many values they have; of several all are asked for.
        """
        keys_text = asked_keys[0]
        if len(asked_keys) > 1:
            keys_text = f"{', '.join(asked_keys[:-1])}, and {asked_keys[-1]}"
        if n_answers == 1:
            singular = self.value_kind.removesuffix("s")
            mentioned = f"special magic {singular} for {keys_text} mentioned in the provided text"
            return _QuestionAndReplyStart(f"What is the {mentioned}?", f"The {mentioned} is")
        plural = self.value_kind
        mentioned = f"special magic {plural} for {keys_text} mentioned in the provided text"
        return _QuestionAndReplyStart(f"What are all the {mentioned}?", f"The {mentioned} are")


def _cut_into_sentences(essay: Sequence[str], n_words: int) -> list[str]:
    """The sentences of the first words of an essay, which is repeated if it has fewer.

    Args:
        essay: The words of the essays.
        n_words: How many words are taken.
    """
    words = list(essay) * math.ceil(n_words / len(essay))
    return re.split(r"(?<=[.!?]) ", " ".join(words[:n_words]))


def _draw_places_in_essay(dice: random.Random, n_sentences: int, n_needles: int) -> list[int]:
    """Draw for each needle how many sentences of the essay come before it, in order.

    Args:
        dice: Draws the places, different ones of 40 depths.
        n_sentences: The number of sentences of the essay.
        n_needles: The number of needles.
    """
    depths = dice.sample(range(_DEPTHS), n_needles)
    return sorted(round(n_sentences * depth / (_DEPTHS - 1)) for depth in depths)


_CHAIN_LENGTH = 5
"""Variables of a chain in the task vt; the reply's beginning names their number."""


def _draw_variable_names(dice: random.Random, n_letters: int) -> list[str]:
    """Draw five different names of so many capital letters: ["XKPQA", ...]."""
    names: list[str] = []
    while len(names) < _CHAIN_LENGTH:
        name = "".join(dice.choices(string.ascii_uppercase, k=n_letters))
        if name not in names:
            names.append(name)
    return names


def _make_variable_tracking(
    dice: random.Random, n_noise_sentences: int, letters_of_name: int = 5
) -> RulerText:
    """Make a chain of five variables among sentences of noise; the question asks which have its
    value.

    "VAR AB = 123", "VAR CD = VAR AB", ...

    Args:
        dice: Draws names, value and places.
        n_noise_sentences: The number of sentences of noise.
        letters_of_name: The number of letters of a variable's name.
    """
    names = _draw_variable_names(dice, letters_of_name)
    value = dice.randint(10000, 99998)
    chain = [f"VAR {names[0]} = {value}"]
    chain += [f"VAR {name} = VAR {name_before}" for name_before, name in itertools.pairwise(names)]
    noise_before = sorted(dice.sample(range(n_noise_sentences), len(chain)))
    # Each line of the chain stands further back by the lines of the chain before it.
    chain_indices = [noise + lines_before for lines_before, noise in enumerate(noise_before)]
    pieces = [NOISE] * n_noise_sentences
    for index, line in zip(chain_indices, chain, strict=True):
        pieces.insert(index, line)
    question = f"Find all variables that are assigned the value {value} in the text above."
    reply_start = (
        "According to the chain(s) of variable assignment in the text above, 5 variables are "
        f"assigned the value {value}, they are: "
    )
    return RulerText(
        pieces,
        supporting=chain_indices,
        separator="\n",
        question=question,
        answers=names,
        reply_start=reply_start,
    )


_N_COMMON_WORDS = 10


class _WordRepeats(NamedTuple):
    """How often a common word stands in the list of cwe, and how often any other."""

    common: int
    other: int


def _make_common_words(
    dice: random.Random, n_different_words: int, repeats: _WordRepeats
) -> RulerText:
    """Make a numbered list of words, ten of them common; the question asks which these are.

    Args:
        dice: Draws the words and their order.
        n_different_words: The number of different words.
        repeats: How often each word stands in the list.
    """
    words = dice.sample(_made_up_words(), n_different_words)
    common_words = words[:_N_COMMON_WORDS]
    other_words = words[_N_COMMON_WORDS:]
    listed_words = common_words * repeats.common + other_words * repeats.other
    dice.shuffle(listed_words)
    pieces = [f"{number}. {word}" for number, word in enumerate(listed_words, start=1)]
    question = "What are the 10 most common words in the above list?"
    reply_start = "The top 10 words that appear most often in the list are:"
    return RulerText(
        pieces,
        supporting=(),
        separator=" ",
        question=question,
        answers=common_words,
        reply_start=reply_start,
    )


def _make_frequent_words(dice: random.Random, n_words: int, vocabulary_size: int) -> RulerText:
    """Make a text of coded words by the zeta distribution of exponent 2; the question asks for the
    three most frequent ones after the dots.

    The word of rank r stands there n_words * r**-2 / zeta(2) times, with zeta(2) = pi**2 / 6.

    Args:
        dice: Draws the words and their order.
        n_words: About how many words the text has.
        vocabulary_size: The number of different words.
    """
    different_words: set[str] = set()
    for _ in range(vocabulary_size):
        different_words.add("".join(dice.choices(string.ascii_lowercase, k=6)))
    words_by_rank = sorted(different_words)
    dice.shuffle(words_by_rank)
    words_by_rank[0] = "..."  # the most frequent "word", which is not asked for
    pieces: list[str] = []
    for rank, word in enumerate(words_by_rank, start=1):
        count = int(n_words * rank**-2.0 / (math.pi**2 / 6))
        pieces += itertools.repeat(word, count)
    dice.shuffle(pieces)
    question = (
        "Do not provide any explanation. Please ignore the dots '....'. What are the three most "
        "frequently appeared words in the above coded text?"
    )
    reply_start = "According to the coded text above, the three most frequently appeared words are:"
    return RulerText(
        pieces,
        supporting=(),
        separator=" ",
        question=question,
        answers=words_by_rank[1:4],
        reply_start=reply_start,
    )


@dataclass(frozen=True)
class SourceQuestion:
    """A question of SQuAD or HotpotQA.

    Attributes:
        question: Its words.
        answers: The accepted answers.
        evidence: The paragraphs that support the answer.
        fixed_paragraphs: Those that stand in every text of the question.
        first_drawn_paragraphs: Those that are drawn before the paragraphs of other questions.
    """

    question: str
    answers: Sequence[str]
    evidence: Sequence[str]
    fixed_paragraphs: Sequence[str]
    first_drawn_paragraphs: Sequence[str] = ()


def _make_text_of_paragraphs(
    dice: random.Random, n_paragraphs: int, source: SourceQuestion, all_paragraphs: Sequence[str]
) -> RulerText:
    """Make a text for a question: its fixed paragraphs, those that are drawn first, then those of
    other questions.

    Args:
        dice: Draws the paragraphs and the order.
        n_paragraphs: The number of paragraphs of the text.
        source: The question as its file has it.
        all_paragraphs: The paragraphs of all questions.
    """
    n_drawn = max(0, n_paragraphs - len(source.fixed_paragraphs))
    own_paragraphs = {*source.fixed_paragraphs, *source.first_drawn_paragraphs}
    foreign = [paragraph for paragraph in all_paragraphs if paragraph not in own_paragraphs]
    first_drawn = list(source.first_drawn_paragraphs)
    candidates = dice.sample(first_drawn, len(first_drawn))
    candidates += dice.sample(foreign, min(n_drawn, len(foreign)))
    # Where there are too few, they come again.
    drawn = itertools.islice(itertools.cycle(candidates), n_drawn)
    texts = [*source.fixed_paragraphs, *drawn]
    dice.shuffle(texts)
    supporting = [index for index, text in enumerate(texts) if text in source.evidence]
    pieces = [f"Document {number}:\n{text}" for number, text in enumerate(texts, start=1)]
    return RulerText(
        pieces,
        supporting,
        separator="\n\n",
        question=source.question,
        answers=source.answers,
    )


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


def _squad_questions(parsed_file: object) -> list[SourceQuestion]:
    """The answerable questions in SQuAD's file; the other paragraphs of their article are drawn
    first.

    Args:
        parsed_file: The JSON value of the file.

    Raises:
        RowError: It has another form.
    """
    questions: list[SourceQuestion] = []
    for article in _SquadFile.read(as_object(parsed_file)).data:
        article_texts = list(dict.fromkeys(paragraph.context for paragraph in article.paragraphs))
        for paragraph in article.paragraphs:
            other_texts = [text for text in article_texts if text != paragraph.context]
            for squad_question in paragraph.qas:
                if squad_question.is_impossible:
                    continue
                questions.append(
                    SourceQuestion(
                        question=squad_question.question,
                        answers=[answer.text for answer in squad_question.answers],
                        evidence=[paragraph.context],
                        fixed_paragraphs=[paragraph.context],
                        first_drawn_paragraphs=other_texts,
                    )
                )
    return questions


def _hotpotqa_questions(parsed_file: object) -> list[SourceQuestion]:
    """The questions in HotpotQA's file, with the paragraphs that supporting facts name as
    `evidence`.

    Args:
        parsed_file: The JSON value of the file.

    Raises:
        RowError: It has another form.
    """
    if not isinstance(parsed_file, list):
        raise RowError(None, "should be a list")
    questions: list[SourceQuestion] = []
    for raw in parsed_file:
        row = hotpotqa.parse_row(as_object(raw))
        text_by_title = {title: f"{title}\n{text}" for title, text in row.paragraphs}
        supporting_titles: dict[str, None] = {}  # a set in order
        for index in row.supporting:
            title, _ = row.paragraphs[index]
            supporting_titles[title] = None
        evidence = [text_by_title[title] for title in supporting_titles]
        paragraphs = list(text_by_title.values())
        questions.append(
            SourceQuestion(
                question=row.question,
                answers=row.answers,
                evidence=evidence,
                fixed_paragraphs=paragraphs,
            )
        )
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


def _read_or_make_questions(options: Options) -> list[SourceQuestion]:
    """The questions of the file that dataset.rows names, or made-up ones of HotpotQA's kind.

    Raises DataError for a file of another form: SQuAD's is needed for qa_1, HotpotQA's for qa_2.
    """
    if options.rows is None:
        return _hotpotqa_questions(_made_up_module("rows").hotpotqa_rows(options.seed))
    data_set = "HotpotQA"
    parse = _hotpotqa_questions
    if options.task == "qa_1":
        data_set = "SQuAD"
        parse = _squad_questions
    try:
        return parse(read_json_value(Path(options.rows).expanduser()))
    except RowError:
        problem = f"not a file of {data_set}; name it with dataset.rows"
        raise DataError.of_file(options.rows, problem) from None


def _read_or_make_essay(options: Options) -> list[str]:
    """The words of the file of essays that dataset.essays names, or of a made-up story.

    Raises DataError for a file without a text.
    """
    if options.essays is None:
        return str(_made_up_module("essays").story(options.seed)).split()
    try:
        words = _read_essays(options.essays).split()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        words = []
    if not words:
        raise DataError.of_file(
            options.essays, "should hold the essays as text, or JSON with a key 'text'"
        )
    return words


def _read_essays(path: str) -> str:
    """The text of a file of essays; of a JSON file the text under its key "text"."""
    content = Path(path).expanduser().read_bytes().decode()
    if not path.endswith(".json"):
        return content
    text_in_json: str = json.loads(content)["text"]
    return text_in_json


def _all_paragraphs(questions: Sequence[SourceQuestion]) -> list[str]:
    """The paragraphs that belong to any of the questions, each once, sorted."""
    paragraphs: set[str] = set()
    for question in questions:
        paragraphs.update(question.fixed_paragraphs)
        paragraphs.update(question.first_drawn_paragraphs)
    return sorted(paragraphs)


_NIAH_BY_TASK = {
    "niah_single_1": Niah("noise"),
    "niah_single_2": Niah("essay"),
    "niah_single_3": Niah("essay", value_kind="uuids"),
    "niah_multikey_1": Niah("essay", n_keys=4),
    "niah_multikey_2": Niah("needle"),
    "niah_multikey_3": Niah("needle", key_kind="uuids", value_kind="uuids"),
    "niah_multivalue": Niah("essay", values_per_key=4),
    "niah_multiquery": Niah("essay", n_asked_keys=4),
}


@dataclass(frozen=True)
class TextMaker:
    """Makes the texts of a task.

    Attributes:
        make_text: (random draws, size, number of the question) -> text. The size is the number of
            words, sentences or paragraphs.
        least_size: The smallest size.
    """

    make_text: Callable[[random.Random, int, int], RulerText]
    least_size: int


def _text_maker(options: Options) -> TextMaker:
    """Choose what makes the texts of the task, with the smallest size that it can make.

        niah_...   needles in a haystack         vt    a chain of variables in noise
        cwe        common words among others     fwe   words by a zeta distribution
        qa_...     paragraphs with those of a question of SQuAD or HotpotQA

    Reads the files of essays or questions that the options name, or makes them up.
    """
    task = options.task
    niah = _NIAH_BY_TASK.get(task)
    # In place of _ the functions get the number of the question, which only qa_... needs.
    if niah is not None:
        essay: Sequence[str] = ()
        if niah.hay == "essay":
            essay = _read_or_make_essay(options)
        return TextMaker(lambda dice, size, _: niah.make_text(dice, size, essay), least_size=4)
    if task == "vt":
        return TextMaker(
            lambda dice, size, _: _make_variable_tracking(dice, size), least_size=_CHAIN_LENGTH
        )
    if task == "cwe":
        repeats = _WordRepeats(common=6, other=1)
        if options.tokens >= _LONG_TEXT_TOKENS:
            repeats = _WordRepeats(common=30, other=3)
        return TextMaker(
            lambda dice, size, _: _make_common_words(dice, size, repeats),
            least_size=_N_COMMON_WORDS + 1,
        )
    if task == "fwe":
        vocabulary_size = max(options.tokens // 50, 4)
        return TextMaker(
            lambda dice, size, _: _make_frequent_words(dice, size, vocabulary_size), least_size=20
        )
    return _maker_of_paragraphs(_read_or_make_questions(options))


def _maker_of_paragraphs(questions: Sequence[SourceQuestion]) -> TextMaker:
    """What makes texts of paragraphs, each with one of some questions: the text of question number
    n is on questions[n], and after the last question comes the first again.

    Args:
        questions: The questions, with their paragraphs.
    """
    all_paragraphs = _all_paragraphs(questions)

    def make_text(dice: random.Random, size: int, question_number: int) -> RulerText:
        """Make the text of a question, by its number; after the last question comes the first
        again.
        """
        question = questions[question_number % len(questions)]
        return _make_text_of_paragraphs(dice, size, question, all_paragraphs)

    return TextMaker(make_text, least_size=1)


def _prompt_pieces(ruler_text: RulerText, instruction: str) -> list[str]:
    """The pieces of the prompt for a text, up to where the answer goes on.

    Args:
        ruler_text: The text with its question.
        instruction: The data set's instruction.
    """
    pieces: list[str] = ANSWER.fill(
        instruction=instruction,
        text=[ruler_text.text],
        question=ruler_text.question,
        options="",
    )
    if ruler_text.reply_start:
        pieces.append(f" {ruler_text.reply_start}")
    return pieces


_VT_EXAMPLE_TOKENS = 500
"""Most tokens of the solved example of vt, with its answer."""


@dataclass(frozen=True)
class _ExampleMaker:
    """Makes the solved example in front of a question, in the form of the question's own prompt: vt,
    a chain of names of three letters in as much noise as 500 tokens hold; cwe, a list of 20 or 40
    words; "" for the other tasks.

    Attributes:
        options: The options of the data set.
        instruction: The data set's instruction.
        count_tokens: The number of tokens of a text.
    """

    options: Options
    instruction: str
    count_tokens: Callable[[str], int]

    def __call__(self, question_number: int) -> str:
        """The solved example in front of a question, by the question's number; "" for tasks
        without one.
        """
        if self.options.task == "vt":
            example = self._make_vt_text(question_number, self._vt_noise_sentences)
        elif self.options.task == "cwe":
            example = self._make_cwe_text(question_number)
        else:
            return ""
        return f"{self._prompt_with_answers(example)}\n\n"

    @cached_property
    def _vt_noise_sentences(self) -> int:
        """The sentences of noise, a multiple of 5, with which prompt and answer still have 500
        tokens."""
        n_sentences = 5
        while self._vt_tokens(n_sentences + 5) <= _VT_EXAMPLE_TOKENS:
            n_sentences += 5
        return n_sentences

    def _vt_tokens(self, n_noise_sentences: int) -> int:
        """The tokens of the first question's example of vt and of a reply."""
        example = self._make_vt_text(0, n_noise_sentences)
        return self.count_tokens(self._prompt_with_answers(example)) + VT_ANSWER_TOKENS

    def _make_vt_text(self, question_number: int, n_noise_sentences: int) -> RulerText:
        """Make the text of an example of vt.

        Args:
            question_number: The number of the question that it stands in front of.
            n_noise_sentences: The number of sentences of noise.
        """
        dice = self._dice(question_number)
        return _make_variable_tracking(dice, n_noise_sentences, letters_of_name=3)

    def _make_cwe_text(self, question_number: int) -> RulerText:
        """Make the text of an example of cwe: of 40 words where texts are long, else of 20.

        Args:
            question_number: The number of the question that it stands in front of.
        """
        dice = self._dice(question_number)
        if self.options.tokens >= _LONG_TEXT_TOKENS:
            return _make_common_words(dice, 40, _WordRepeats(common=10, other=3))
        return _make_common_words(dice, 20, _WordRepeats(common=3, other=1))

    def _dice(self, question_number: int) -> random.Random:
        """The random numbers for the example of a question."""
        return random.Random(f"{self.options.task} {self.options.seed} {question_number} example")

    def _prompt_with_answers(self, example: RulerText) -> str:
        """The prompt of an example, followed by its answers."""
        answers = list(example.answers)
        if self.options.task == "cwe":
            answers = [f"{number}. {word}" for number, word in enumerate(answers, start=1)]
        prompt = "".join(_prompt_pieces(example, self.instruction)).rstrip()
        return f"{prompt} {' '.join(answers)}"


class _LongestTexts:
    """The longest text of each question that fits into `dataset.tokens`."""

    def __init__(self, config: DatasetConfig, options: Options) -> None:
        """Find the size at which the first question's text still fits.

        Raises ConfigError where no text fits.
        """
        self._config = config
        self._options = options
        self._maker = _text_maker(options)
        self._count_tokens = _token_counter(options)
        # Number of a question -> its solved example.
        self._solved_example = cache(_ExampleMaker(options, config.instruction, self._count_tokens))
        self._size_of_first_text = self._largest_size_that_fits()

    def make_text(self, question_number: int) -> RulerText:
        """Make the text of a question, by its number, as long as fits.

        It has the size of the first question's text; where it is too long at that size, one that is
        smaller by a fiftieth, again and again, until it fits or the size is the least.
        """
        size = self._size_of_first_text
        least_size = self._maker.least_size
        text = self._make_text_of_size(question_number, size)
        while not self._fits(text) and size > least_size:
            size = max(least_size, size - max(1, size // 50))
            text = self._make_text_of_size(question_number, size)
        return text

    def _make_text_of_size(self, question_number: int, size: int) -> RulerText:
        """Make the text of a question with its solved example.

        Args:
            question_number: The number of the question, which seeds all draws.
            size: The number of words, sentences or paragraphs.
        """
        dice = random.Random(f"{self._options.task} {self._options.seed} {question_number}")
        text = self._maker.make_text(dice, size, question_number)
        return replace(text, solved_example=self._solved_example(question_number))

    def _tokens_with_answer(self, ruler_text: RulerText) -> int:
        """The tokens of the prompt for a text, encoded in pieces as a model reads it, and of
        the answer.
        """
        first_piece, *others = _prompt_pieces(ruler_text, self._config.instruction)
        pieces = [ruler_text.solved_example + first_piece, *others]
        return sum(map(self._count_tokens, pieces)) + self._config.max_answer_tokens

    def _fits(self, ruler_text: RulerText) -> bool:
        """Whether the prompt for a text and the answer have at most dataset.tokens tokens."""
        return self._tokens_with_answer(ruler_text) <= self._options.tokens

    def _largest_size_that_fits(self) -> int:
        """The largest size, to half a percent, at which the text of the first question fits: the
        size is doubled until the text is too long, then looked for between the last two.

        Raises ConfigError where not even the smallest does.
        """
        least_size = self._maker.least_size
        max_tokens = self._options.tokens
        least_tokens = self._tokens_with_answer(self._make_text_of_size(0, least_size))
        if least_tokens > max_tokens:
            task = self._options.task
            problem = f"a text of '{task}' needs {least_tokens} tokens at least with this tokenizer"
            raise ConfigError([f"dataset.tokens: {max_tokens} are too few; {problem}"])
        fitting_size = least_size
        larger_size = least_size * 2
        while larger_size < max_tokens and self._fits(self._make_text_of_size(0, larger_size)):
            fitting_size = larger_size
            larger_size = larger_size * 2
        while larger_size - fitting_size > max(1, fitting_size // 200):
            middle_size = (fitting_size + larger_size) // 2
            if self._fits(self._make_text_of_size(0, middle_size)):
                fitting_size = middle_size
            else:
                larger_size = middle_size
        return fitting_size


def _question_on_text(ruler_text: RulerText, document_id: str) -> Question:
    """The question on a text.

    Args:
        ruler_text: The text.
        document_id: The id of its document; the question's is "DOCUMENT-q".
    """
    question_id = f"{document_id}-q"
    words = ruler_text.question
    if ruler_text.solved_example:
        return ExampleQuestion(
            question_id,
            words,
            (document_id,),
            begins=ruler_text.reply_start,
            example=ruler_text.solved_example,
        )
    if ruler_text.reply_start:
        return BegunQuestion(question_id, words, (document_id,), begins=ruler_text.reply_start)
    return Question(question_id, words, (document_id,))


def _source_name(options: Options) -> str:
    """Where the texts come from, for the manifest: "made by RULER's recipe: vt, 4096 tokens,
    seed 0".
    """
    source = f"made by RULER's recipe: {options.task}, {options.tokens} tokens, seed {options.seed}"
    niah = _NIAH_BY_TASK.get(options.task)
    needs_questions = options.task.startswith("qa_")
    needs_essays = niah is not None and niah.hay == "essay"
    if needs_questions and options.rows is None:
        source += ", made-up rows"
    if needs_essays and options.essays is None:
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
        return lambda text: math.ceil(len(text) / _CHARACTERS_PER_TOKEN)
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
    options = parse_options(Options, config.options)
    texts = _LongestTexts(config, options)
    n_questions = options.questions
    if limit is not None:
        n_questions = min(limit, options.questions)
    examples: list[Example] = []
    documents: dict[str, Document] = {}
    settings = canonical_json(["ruler 2", config.instruction, options.model_dump()])
    fingerprint = hashlib.sha256(settings.encode())
    for question_number in range(n_questions):
        ruler_text = texts.make_text(question_number)
        text = ruler_text.text
        document_id = f"{options.task}-{options.tokens}-{options.seed}-{question_number}"
        whole_text = Passage(title="", start=0, end=len(text))
        documents[document_id] = Document(document_id, text, passages=(whole_text,))
        supporting = ruler_text.supporting_spans(document_id)
        gold = Gold(tuple(ruler_text.answers), supporting, {"type": options.task})
        example = Example(_question_on_text(ruler_text, document_id), gold)
        examples.append(example)
        fingerprint.update(canonical_json([example, text]).encode())
    return Dataset(
        name=config.name,
        examples=tuple(examples),
        documents=documents,
        fingerprint=fingerprint.hexdigest(),
        source=_source_name(options),
        n_all_questions=options.questions,
    )
