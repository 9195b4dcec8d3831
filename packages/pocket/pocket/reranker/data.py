"""What a reranker of the pocket world learns from: a question, the chunks of its text, and which of
them it needs.

    made = sample("musique", seed=1_000_000, tokens=1640, hops=(1, 2), purpose="training")
    chunk_lists(made, 100, offsets)
        -> one QuestionWithChunks for each question of the text that something supports

"Where was the author of Velindra born?"   chunk 1  "... Velindra is a book by Toren ..."   stating
                                           chunk 2  "... Toren was born in Kelford ..."      stating
                                           chunk 3  "... Moravel is a book by Sarin ..."     a look-alike, as most are

Chunks are those of the retrieval rows: cut hard every so many tokens. A fact is in the chunk with
most of its sentence.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from harness.errors import CannotRun
from harness.stats.rng import Dice
from harness.types import Support
from pocket.world.layout import Sample, spans_of_facts
from pocket.world.sample import FIRST_TRAINING_SEED, sample

Offsets = Callable[[str], Sequence[tuple[int, int]]]
"""The characters [start, end) of every token of a text."""

KINDS = ("musique", "hotpotqa", "2wikimultihopqa", "narrativeqa", "qasper", "quality", "retrieved")
HOPS = (1, 2)
_TEXT_TOKENS = (800, 1640)  # of texts (characters / 4)
_CHUNK_TOKENS = (60, 100, 100, 150)  # of chunks
_MAX_TEXTS_TRIED_PER_QUESTION = 8  # few texts have no question that a fact supports


@dataclass(frozen=True)
class QuestionWithChunks:
    """A question and all chunks of its text.

    Args:
        question: The words of the question.
        chunks: For each chunk where it stands in its document.
        texts: The text of each chunk.
        stating: [chunks], whether each chunk states a supporting fact.
        facts: Where the sentences of these facts stand.
    """

    question: str
    chunks: tuple[Support, ...]
    texts: tuple[str, ...]
    stating: np.ndarray
    facts: tuple[Support, ...]


def chunk_lists(
    made_text: Sample, chunk_tokens: int, offsets: Offsets
) -> Iterator[QuestionWithChunks]:
    """Yield each question of a text that some fact supports, with all chunks of the text, and which
    of these state a supporting fact: for each fact the chunk that holds most of its sentence.

    Args:
        made_text: The text with its questions.
        chunk_tokens: How many tokens a chunk has.
        offsets: A function: text -> the characters [start, end) of each of its tokens.
    """
    chunks: list[Support] = []
    chunk_texts: list[str] = []
    for document in made_text.documents:
        for start, end in _chunk_spans(document.text, chunk_tokens, offsets):
            chunks.append(Support(document.id, start, end))
            chunk_texts.append(document.text[start:end])
    for example, proved_question in zip(made_text.examples, made_text.asked, strict=True):
        fact_spans = spans_of_facts(made_text.pages, proved_question.supports, whole=False)
        states_a_fact = np.zeros(len(chunks), dtype=bool)
        for fact_span in fact_spans:
            shared_characters = [_shared_characters(chunk, fact_span) for chunk in chunks]
            states_a_fact[int(np.argmax(shared_characters))] = True
        if fact_spans:
            yield QuestionWithChunks(
                question=example.question.text,
                chunks=tuple(chunks),
                texts=tuple(chunk_texts),
                stating=states_a_fact,
                facts=fact_spans,
            )


def _shared_characters(chunk: Support, fact: Support) -> int:
    """How many characters two spans share; 0 or below where they share none, -1 in different
    documents."""
    if chunk.document_id != fact.document_id:
        return -1
    return min(chunk.end, fact.end) - max(chunk.start, fact.start)


def _chunk_spans(text: str, chunk_tokens: int, offsets: Offsets) -> Iterator[tuple[int, int]]:
    """Yield the characters [start, end) of each chunk of a text; nothing for a text without tokens.
    The chunks join without a gap: each ends where the first token of the next one starts.

    Args:
        text: The text.
        chunk_tokens: How many tokens a chunk has.
        offsets: A function: text -> the characters [start, end) of each of its tokens.
    """
    token_starts = [start for start, _ in offsets(text)]
    if token_starts:
        # Each once: tokens may start at the same character, as bytes of one character do.
        chunk_starts = dict.fromkeys([0, *token_starts[chunk_tokens::chunk_tokens]])
        yield from pairwise([*chunk_starts, len(text)])


def questions_of_step(
    seed: int, step: int, n_questions: int, offsets: Offsets
) -> list[QuestionWithChunks]:
    """The questions that one step of training reads, each with all chunks of its text: a function
    of seed and step alone.

    Several questions share each text, so that the ranking must depend on the question, not on the
    chunk alone.

    Args:
        seed: The seed of the training.
        step: The number of the step.
        n_questions: How many questions.
        offsets: A function: text -> the characters [start, end) of each of its tokens.

    Raises:
        CannotRun: Too few of the drawn texts have questions that a fact supports.
    """
    dice = Dice("reranker", seed, step)
    max_texts = _MAX_TEXTS_TRIED_PER_QUESTION * n_questions
    questions: list[QuestionWithChunks] = []
    for attempt in range(max_texts):
        text_number = step * max_texts + attempt  # so that no two steps share a text
        kind = dice.pick(KINDS)
        tokens = dice.pick(_TEXT_TOKENS)
        chunk_tokens = dice.pick(_CHUNK_TOKENS)
        made_text = sample(
            kind,
            FIRST_TRAINING_SEED + seed,
            tokens=tokens,
            purpose="training",
            hops=HOPS,
            number=text_number,
        )
        questions_on_text = dice.shuffled(list(chunk_lists(made_text, chunk_tokens, offsets)))
        n_missing = n_questions - len(questions)
        questions += questions_on_text[:n_missing]
        if len(questions) == n_questions:
            return questions
    raise CannotRun(
        f"{max_texts} made-up texts have no {n_questions} questions that "
        "something supports; name a --seed"
    )
