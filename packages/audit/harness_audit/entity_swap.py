"""Entity-swapped copies: a data set's questions with other names, years and numbers
(dataset.swap=entities).

    "Ada Lovelace was born in 1815."    ─►    "Tovin Brasker was born in 1775."

A reader that reads answers a copy as well as the original; one that remembers the original does
not. The difference is what it recalled rather than read (`harness report memory`).

Words are replaced, not names, so that "Lovelace" alone, "Lovelace's" and an alias stay the same
person. Which words of a document are names follows from the document alone, so questions that share
it share its copy. A word that the document also has in small letters stays, and so do months,
weekdays, titles, generic parts of names (University, River), yes, no and single letters. What
stands for a word follows from the word and the seed.

Numbers up to 31 stay (days, ordinals, small counts). Years from 1000 to 2099 move back by 20 to 60,
all by the same multiple of ten, so their order, differences and decades stay; other numbers are
moved within their size.

Question, options, answers and everything else that a scorer sees are replaced alike, and so are a
solved example and the beginning of the reply. No two words become one: a text holds an answer, as a
run of whole words and numbers, exactly where it did before.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.config.schema import json_sha256
from harness.datasets.base import Dataset
from harness.entities.recogniser import (
    MONTHS,
    SENTENCE_OPENERS,
    Recogniser,
    install_problem,
    is_sentence_start,
    load_recogniser,
)
from harness.types import Document, Example, Gold, Passage, Question, Support

VERSION = 1
VERSION_WITH_EXAMPLES = 2
"""Of copies whose questions have solved examples, which version 1 left as they were."""
ENTITIES = "entities"
TOKEN = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+|[^\W\d_]+")

_MAX_WORDS_OF_NAME = 4  # words of an answer that is a name rather than a sentence


# Words that stay: titles, what a name may have of common words, answers that are no names.
_COMMON_WORDS = Path(__file__).with_name("kept_words.txt").read_text(encoding="utf-8").split()
_WORDS_THAT_STAY = SENTENCE_OPENERS.union(_COMMON_WORDS, map(str.casefold, MONTHS))

_ONSETS = (*"bdfghjklmnprstvwz", "br", "dr", "gr", "kl", "pr", "st", "tr")
_VOWELS = "aeiou"
_CODAS = ("", "", "", "l", "n", "r", "s", "k")


def swapped_copy(dataset: Dataset, swap_setting: str, seed: int) -> Dataset:
    """A copy of the data set with other names and numbers in its documents, questions and gold
    answers. Questions about the same documents share one copy of them.

    Its fingerprint is a hash of the original's and of what made it (`Dataset.copy_facts`). Ids stay,
    except those of documents that were retrieved: their copies depend on what else was retrieved,
    so a hash of the text is added.

    Args:
        dataset: The original.
        swap_setting: "entities", or with a recogniser "entities:rules".
        seed: Another seed makes other names and numbers.

    Raises:
        UnknownName: There is no such recogniser.
        CannotRun: The recogniser is not installed.
    """
    recogniser = load_recogniser(recogniser_name(swap_setting))
    copy_facts = {
        "swap": ENTITIES,
        "version": _rules_version(dataset),
        "of": dataset.fingerprint,
        "seed": seed,
        "recogniser": {"name": recogniser.name, **recogniser.identity},
    }
    examples: list[Example] = []
    documents: dict[str, Document] = {}
    swapped_by_ids: dict[tuple[str, ...], _SwappedDocuments] = {}
    for example in dataset.examples:
        ids = example.question.document_ids
        if ids not in swapped_by_ids:
            swapped_by_ids[ids] = _SwappedDocuments(
                [dataset.documents[document_id] for document_id in ids], recogniser, seed
            )
            for document in swapped_by_ids[ids].copies:
                documents[document.id] = document
        examples.append(swapped_by_ids[ids].copied_example(example))
    return replace(
        dataset,
        examples=tuple(examples),
        documents=documents,
        fingerprint=json_sha256(copy_facts),
        source=f"{dataset.source}, entities swapped by {recogniser.name}",
        copy_facts=copy_facts,
    )


def _rules_version(dataset: Dataset) -> int:
    """The version of this module's rules by which the data set is copied, which becomes part of the
    copy's identity."""
    if any(example.question.example for example in dataset.examples):
        return VERSION_WITH_EXAMPLES
    return VERSION


def recogniser_name(swap_setting: str) -> str:
    """The name of the recogniser that finds the names: "entities:stanza" -> "stanza". For
    "entities" alone it is spacy or stanza, the first that is installed with its model, else
    "rules"."""
    chosen_name = swap_setting.partition(":")[2]
    if chosen_name:
        return chosen_name
    for candidate in ("spacy", "stanza"):
        if not install_problem(candidate):
            return candidate
    return "rules"


class _SwappedDocuments:
    """The documents of a question, with one replacement for each word of a name in them, and their
    copies."""

    def __init__(self, documents: Sequence[Document], recogniser: Recogniser, seed: int) -> None:
        """Find the names in the documents and choose what stands for each word of them. A word that
        the documents also have in small letters is no name.

        Args:
            documents: The documents of a question.
            recogniser: What finds names.
            seed: Another seed gives other replacements.
        """
        self.documents = documents
        self.recogniser = recogniser
        self.seed = seed
        self.vocabulary: set[str] = set()
        lower_case_words: set[str] = set()
        name_words: set[str] = set()
        for document in documents:
            self.vocabulary.update(_words(document.text))
            lower_case_words.update(_lower_case_words(document.text))
            name_words.update(self._names_in(document))
        # A word in small letters -> what stands for it.
        self.replacement_by_word = _replacement_words(
            name_words - lower_case_words, self.vocabulary, seed
        )
        self._swap = _Swap(self.replacement_by_word, seed)

    def _names_in(self, document: Document) -> set[str]:
        """The words of the names in a document that may be replaced, in small letters.

        The name of a single word counts only where it also stands inside a sentence or in a title,
        since any word is capitalised at the start of a sentence.
        """
        inside_sentences: set[str] = set()
        for match in TOKEN.finditer(document.text):
            if not is_sentence_start(document.text, match.start()):
                inside_sentences.add(match.group().casefold())
        inside_sentences.update(_words(document.title))
        for passage in document.passages:
            inside_sentences.update(_words(passage.title))
        name_words: set[str] = set()
        for name in self.recogniser.names(document.text):
            words = set(_swappable(name))
            if _word_count(name) == 1:
                words &= inside_sentences
            name_words |= words
        return name_words

    @cached_property
    def copies(self) -> tuple[Document, ...]:
        """The copies of the documents, in order. Where a question has several, each id gets a hash
        of its text ("doc7~0a1b2c3d"), as the copy depends on the other documents."""
        return tuple(map(self._copied_document, self.documents))

    def _copied_document(self, original: Document) -> Document:
        """The copy of a document: text, titles and places of its passages. Where a question has
        several documents, the copy's id gets a hash of its text: "doc 3" -> "doc 3~0a1b2c3d"."""
        offsets_in_copy = self._offset_maps[original.id]
        text = self._swap.text(original.text)
        passages: list[Passage] = []
        for passage in original.passages:
            title = self._swap.text(passage.title)
            start = offsets_in_copy.of_start(passage.start)
            passages.append(Passage(title, start, offsets_in_copy.of_end(passage.end)))
        copy_id = original.id
        if len(self.documents) > 1:
            text_hash = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
            copy_id = f"{copy_id}~{text_hash[:8]}"
        return Document(copy_id, text, self._swap.text(original.title), tuple(passages))

    @cached_property
    def copy_id_by_id(self) -> dict[str, str]:
        """Id of a document -> id of its copy."""
        return {old.id: new.id for old, new in zip(self.documents, self.copies, strict=True)}

    @cached_property
    def _offset_maps(self) -> dict[str, _Offsets]:
        """Id of a document -> the offsets in its copy for those in its text."""
        return {document.id: self._swap.offset_map(document.text) for document in self.documents}

    def copied_example(self, example: Example) -> Example:
        """The copy of a question about the documents, with its gold answers and supporting
        spans."""
        question = example.question
        gold = example.gold
        swap = self.swap_for_question(question, gold)
        copy = replace(
            question,
            text=swap.text(question.text),
            document_ids=tuple(self.copy_id_by_id[name] for name in question.document_ids),
        )
        if question.options is not None:
            copy = replace(copy, options=tuple(map(swap.text, question.options)))
        # Fields of the questions that have them, in classes of their own.
        swapped_fields: dict[str, Any] = {}
        for name in ("begins", "example"):
            text = getattr(question, name)
            if text:
                swapped_fields[name] = swap.text(text)
        copy = replace(copy, **swapped_fields)
        answers = tuple(map(swap.text, gold.answers))
        supporting = tuple(map(self.copied_support, gold.supporting))
        return Example(copy, Gold(answers, supporting, swap.value(gold.extra)))

    def copied_support(self, support: Support) -> Support:
        """The span in the copy of a document that stands for a supporting span in the original."""
        offsets = self._offset_maps[support.document_id]
        return Support(
            self.copy_id_by_id[support.document_id],
            offsets.of_start(support.start),
            offsets.of_end(support.end),
        )

    def swap_for_question(self, question: Question, gold: Gold) -> _Swap:
        """The replacements for a question's texts and its gold answers: those of its documents, and
        further ones for names that only these texts have. A gold answer of a few words is taken for
        a name. Names that only its solved example has stay."""
        answers = [*gold.answers, *_strings_in(gold.extra)]
        texts = [question.text, *(question.options or ()), *answers]
        words: set[str] = set()
        lower_case_words: set[str] = set()
        name_words: set[str] = set()
        for text in texts:
            words.update(_words(text))
            lower_case_words.update(_lower_case_words(text))
            name_words.update(self._names_in_question(text))
        for answer in answers:
            if _word_count(answer) <= _MAX_WORDS_OF_NAME:
                name_words.update(_swappable(answer))
        words.update(_words(question.example))  # so that no made-up word is one of the example's
        words_to_replace = name_words - lower_case_words - self.vocabulary
        # A word that happens to be what stands for a name would put that name where it was not.
        replacements = set(self.replacement_by_word.values())
        words_to_replace |= words & replacements
        further_replacements = _replacement_words(
            words_to_replace, self.vocabulary | words | replacements, self.seed
        )
        return _Swap({**self.replacement_by_word, **further_replacements}, self.seed)

    def _names_in_question(self, text: str) -> set[str]:
        """The words of the names in a text of a question that may be replaced, in small letters.

        A name of one word that opens the text does not count: "Name a member of ..." is no name.
        """
        name_words: set[str] = set()
        for name in self.recogniser.names(text):
            is_first = text.lstrip("\"'“‘( ").startswith(name)
            if _word_count(name) > 1 or not is_first:
                name_words.update(_swappable(name))
        return name_words


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text in small letters, without numbers: "Ann's 3 Cats" -> "ann", "s",
    "cats"."""
    for match in TOKEN.finditer(text):
        word = match.group()
        if not word[0].isdigit():
            yield word.casefold()


def _word_count(text: str) -> int:
    """How many words a text has, numbers left out."""
    return len(list(_words(text)))


def _lower_case_words(text: str) -> Iterator[str]:
    """Yield those words of a text that are written in small letters: "Ann met a friend" -> "met",
    "a", "friend"."""
    for match in TOKEN.finditer(text):
        if match.group().islower():
            yield match.group().casefold()


def _swappable(name: str) -> Iterator[str]:
    """Yield the words of a name that may be replaced, in small letters: those that are capitalised,
    longer than a letter, and not in the list of words that stay.

        "University of Kelford" -> "kelford"
    """
    for match in TOKEN.finditer(name):
        word = match.group()
        if word[0].isupper() and len(word) > 1 and word.casefold() not in _WORDS_THAT_STAY:
            yield word.casefold()


def _strings_in(value: Any) -> Iterator[str]:
    """Yield all texts inside a JSON value, at any depth; keys are left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings_in(inner)


def _replacement_words(
    words: Iterable[str], forbidden_words: set[str], seed: int
) -> dict[str, str]:
    """Word -> the made-up word that stands for it. It follows from word and seed, and is no word
    that stays, as "april"; no two are alike.

    Args:
        words: The words to replace, in small letters.
        forbidden_words: Further words that must not be made.
        seed: Another seed makes other words.
    """
    replacements: dict[str, str] = {}
    taken_words = forbidden_words | _WORDS_THAT_STAY
    for word in sorted(words):
        attempt = 0
        candidate = _pseudoword(word, seed, attempt)
        while candidate in taken_words:
            attempt += 1
            candidate = _pseudoword(word, seed, attempt)
        replacements[word] = candidate
        taken_words.add(candidate)
    return replacements


def _pseudoword(word: str, seed: int, attempt: int) -> str:
    """A made-up word that can be pronounced, about as long as `word`: "lovelace" -> "brasker".

    Args:
        word: The word that it stands for, in small letters.
        seed: Another seed makes another word.
        attempt: The number of the attempt, from 0; another attempt makes another word.
    """
    remaining = int.from_bytes(hashlib.sha256(f"{seed} {attempt} {word}".encode()).digest())
    parts: list[str] = []
    syllables = 3
    if len(word) < 8:
        syllables = 2
    for _ in range(syllables):
        for letters in (_ONSETS, _VOWELS, _CODAS):
            remaining, index = divmod(remaining, len(letters))
            parts.append(letters[index])
    return "".join(parts)


@dataclass(frozen=True)
class _Swap:
    """Replaces words and numbers of texts.

    Args:
        replacement_by_word: Word in small letters -> its replacement.
        seed: Decides by how much numbers move.
    """

    replacement_by_word: Mapping[str, str]
    seed: int

    def text(self, text: str) -> str:
        """The text with names and numbers replaced: "Ada Lovelace, 1815" -> "Tovin Brasker,
        1775"."""
        return TOKEN.sub(lambda match: self.token(match.group()), text)

    def token(self, token: str) -> str:
        """What stands for one word or number: "LOVELACE" -> "BRASKER", "1815" -> "1775"; itself if
        it is kept."""
        if token[0].isdigit():
            return _replacement_number(token, self.seed)
        replacement = self.replacement_by_word.get(token.casefold())
        if replacement is None:
            return token
        if token.islower():
            return replacement
        if len(token) > 1 and token.isupper():
            return replacement.upper()
        return replacement.title()

    def value(self, value: Any) -> Any:
        """A JSON value with the texts inside replaced; keys and numbers stay."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.value(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return list(map(self.value, value))
        return value

    def offset_map(self, text: str) -> _Offsets:
        """The offsets in the copy of `text` for those in it: where each word starts and ends whose
        length changes, and by how many characters it and those before it move what follows. The
        first entry, 0 in all three, stands for the start of the text."""
        starts = [0]
        ends = [0]
        shifts = [0]
        for match in TOKEN.finditer(text):
            replacement = self.token(match.group())
            if len(replacement) != len(match.group()):
                starts.append(match.start())
                ends.append(match.end())
                shifts.append(shifts[-1] + len(replacement) - len(match.group()))
        return _Offsets(starts, ends, shifts)


@dataclass(frozen=True)
class _Offsets:
    """The offsets in the copy of a text for those in the text, both in characters.

    An offset inside a word whose length changes becomes that of its start or, for the end of a
    span, of its end.

        "Ada met Bo."  ─►  "Tovin met Brasker."
        of_start(4) -> 6, where "met" starts; of_start(9) -> 10, where "Brasker" starts
        of_end(9) -> 17, where "Brasker" ends

    Attributes:
        starts: Where each word whose length changes starts in the text, after a word of no length
            at 0.
        ends: Where it ends.
        shifts: By how much it and the words before it move what comes after it.
    """

    starts: Sequence[int]
    ends: Sequence[int]
    shifts: Sequence[int]

    def of_start(self, offset: int) -> int:
        """The offset in the copy of a span's start in the text; inside a word whose length changes
        it becomes the start of that word, which is moved by the words before it alone."""
        word_number = self._word_before(offset)
        if self._is_inside(word_number, offset):
            return self.starts[word_number] + self.shifts[word_number - 1]
        return self._shifted(word_number, offset)

    def of_end(self, offset: int) -> int:
        """The offset in the copy of a span's end in the text; inside a word whose length changes it
        becomes the end of that word, which is moved by its own change too."""
        word_number = self._word_before(offset)
        if self._is_inside(word_number, offset):
            return self.ends[word_number] + self.shifts[word_number]
        return self._shifted(word_number, offset)

    def _word_before(self, offset: int) -> int:
        """The number of the last word that starts at `offset` or before."""
        return bisect_right(self.starts, offset) - 1

    def _is_inside(self, word_number: int, offset: int) -> bool:
        """Whether an offset is after the start of a word and before its end."""
        return self.starts[word_number] < offset < self.ends[word_number]

    def _shifted(self, word_number: int, offset: int) -> int:
        """The offset in the copy for one that is inside no word whose length changes.

        Args:
            word_number: The number of the last such word that starts at `offset` or before.
            offset: The offset in the text.
        """
        if offset == self.starts[word_number] and word_number:
            word_number -= 1  # the word's own start is moved by the words before it alone
        return offset + self.shifts[word_number]


def _replacement_number(token: str, seed: int) -> str:
    """The number that stands for a number, of about the same size: "1815" -> "1775", "1,200" ->
    "1,240". Numbers up to 31 stay, as do those that begin with 0. No two numbers become one: each
    range (32 to 99, 100 to 999, 1000 to 2099) is turned round in itself, as on a dial; a number
    with commas and one from 2100 only gets larger.

    Args:
        token: The number, maybe with commas between thousands.
        seed: Decides by how much it moves, 20 to 60 (3 to 9 below 100); years all move back by the
            same.
    """
    value = int(token.replace(",", ""))
    if token.startswith("0") or value <= 31:
        return token
    shift = 10 * (2 + seed % 5)
    if "," in token:
        return f"{value + shift:,}"
    if value < 100:
        return str(32 + (value - 32 + 3 + seed % 7) % 68)
    if value < 1000:
        return str(100 + (value - 100 + shift) % 900)
    if value < 2100:  # a year
        return str(1000 + (value - 1000 - shift) % 1100)
    return str(value + shift)
