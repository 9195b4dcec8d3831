"""Queries that a model writes for a question, before anything is retrieved.

HyDE           passages that would answer the question; a search by the mean of their vectors
multi-query    the question in other words; a search by each

    "1. repair time of a pump\\n2. how long does a pump repair take"
        -> ["repair time of a pump", "how long does a pump repair take"]

Sources and defaults: docs/methods/stages.md#rewriting.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.method import MethodConfig, Tools
from harness.prompts import Pieces, Prompt, feed
from harness.stats.rng import derived_seed
from harness.types import Question

HYPOTHESIS = Prompt(
    "hypothetical passage",
    "Write a passage that answers the question below, as it might stand in a document. If you do "
    "not know the answer, write what is plausible.\n\nQuestion: {question}\n\nPassage:",
)
QUERIES = Prompt(
    "rewritten queries",
    "Somebody searches documents for the answer to the question below. Write {count} search "
    "queries that ask for it in different words, one a line, and nothing else.\n\nQuestion: "
    "{question}\n\nQueries:",
)
_END_OF_PASSAGE = "\n\n\n"
_LIST_MARK = re.compile(r"^(?:[*\u2022-]|\d{1,2}[.):])\s+")


@dataclass(frozen=True)
class Writing:
    """How queries are written.

    Attributes:
        max_tokens: Most tokens of a reply.
        temperature: 0 is greedy.
        config: The method's, for prompts that it replaces.
    """

    max_tokens: int
    temperature: float
    config: MethodConfig


def write_hypothetical_passages(
    question: Question, count: int, writing: Writing, tools: Tools
) -> list[str]:
    """Let the model write passages that would answer the question, each with a seed of its own.

    Args:
        question: The question.
        count: How many are written; empty ones are left out.
        writing: Length and temperature of a passage.
        tools: The engine's tools.
    """
    request = HYPOTHESIS.with_replacements(writing.config).fill(question=question.text)

    def write_passage(number: int) -> str:
        """Write the passage of this number."""
        seed = derived_seed(tools.seed, question.id, "hypothetical passage", str(number))
        return _write_reply(request, writing, seed, tools, stop_texts=(_END_OF_PASSAGE,))

    written = tools.map(write_passage, range(count))
    return [text for text in written if text]


def rewrite_question(question: Question, count: int, writing: Writing, tools: Tools) -> list[str]:
    """Let the model write the question in other words, as several queries in one reply.

    Args:
        question: The question.
        count: How many are asked for; the model may write fewer.
        writing: Length and temperature of the reply.
        tools: The engine's tools.
    """
    request = QUERIES.with_replacements(writing.config).fill(
        question=question.text, count=str(count)
    )
    seed = derived_seed(tools.seed, question.id, "rewritten queries")
    reply = _write_reply(request, writing, seed, tools)
    return parse_queries(reply, question.text, count)


def parse_queries(reply: str, question: str, max_queries: int) -> list[str]:
    r"""The first queries of a reply: its lines without list marks.

        "Queries:\n1. pump repair\n2. pump repair", ... -> ["pump repair"]

    Left out are a line that ends with a colon, which announces the list, what stands there twice,
    and the question itself.

    Args:
        reply: What the model wrote.
        question: The question that was rewritten.
        max_queries: Most queries.
    """
    queries: list[str] = []
    for line in reply.splitlines():
        query = _LIST_MARK.sub("", line.strip()).strip()
        is_announcement = query.endswith(":")
        is_known = query in (question, *queries)
        if query and not is_announcement and not is_known:
            queries.append(query)
    return queries[:max_queries]


def _write_reply(
    request: Pieces, writing: Writing, seed: int, tools: Tools, stop_texts: tuple[str, ...] = ()
) -> str:
    """The reader's reply to one request, without white space around it.

    Args:
        request: The request.
        writing: Length and temperature of the reply.
        seed: The seed of its draws.
        tools: The engine's tools.
        stop_texts: Texts that end the reply.
    """
    with tools.model().session() as session:
        feed(session, request)
        written = session.write(
            writing.max_tokens, stop_texts, temperature=writing.temperature, seed=seed
        )
    return written.text.strip()
