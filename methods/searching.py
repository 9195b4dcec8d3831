"""What methods that search share: the passages found so far, each once, as the reader sees them.

passages = FoundPassages()
passages.add("who wrote Velindra", tools.search("who wrote Velindra", 5), tools)
passages.texts()      ["Velindra\\nThe novel of the winter ...", ...]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from harness.errors import WindowExceeded
from harness.method import Tools
from harness.models import MeteredModel
from harness.prompts import Pieces, prompt_tokens
from harness.types import SearchHit, Shown, Step
from methods.reading import SEPARATOR, how_many_fit


@dataclass
class FoundPassages:
    """Passages that the searches of a question found, in the order of finding, and steps for the
    trace."""

    hits: list[SearchHit] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def add(
        self, query: str, hits: Sequence[SearchHit], tools: Tools, max_passages: int | None = None
    ) -> list[SearchHit]:
        """Add the passages that are new, and a step for each.

        Args:
            query: What found them.
            hits: The passages, best first; some may be there already.
            tools: The engine's tools, which count the tokens of the steps.
            max_passages: Most passages in all; None: no limit.

        Returns:
            Those that were new.
        """
        known_ids = set(map(_id_of, self.hits))
        new_hits: list[SearchHit] = []
        for hit in hits:
            is_full = max_passages is not None and len(self.hits) >= max_passages
            if hit.id in known_ids or is_full:
                continue
            self.steps.append(retrieve_step(hit, query, len(self.hits), tools))
            self.hits.append(hit)
            new_hits.append(hit)
        return new_hits

    def texts(self) -> list[str]:
        """The texts of all passages so far, each with its title on a line of its own before it."""
        return [hit.titled_text for hit in self.hits]

    def shown(self, count: int | None = None) -> tuple[Shown, ...]:
        """The first `count` passages (None: all) in the form in which an Answer says what the
        reader saw."""
        return tuple(hit.shown for hit in self.hits[:count])


def _id_of(hit: SearchHit) -> str:
    """The id of a passage."""
    return hit.id


def retrieve_step(hit: SearchHit, query: str, rank: int, tools: Tools) -> Step:
    """The step of a trace for a passage that was found.

    Args:
        hit: The passage.
        query: What was searched for.
        rank: The passage's place among all that were found, from 0.
        tools: The engine's tools.
    """
    return Step(
        "retrieve",
        rank,
        scores={"score": hit.score},
        tokens=tools.model().count(hit.titled_text),
        flops=tools.meter.flops(),
        shown=hit.shown,
        note=query,
    )


def with_separators(texts: Sequence[str]) -> list[str]:
    r"""Texts as pieces of a prompt, with a blank line between each two: ["a", "b"] -> ["a", "\n\n",
    "b"]."""
    pieces: list[str] = []
    for text in texts:
        pieces += [SEPARATOR, text]
    return pieces[1:]


def how_many_fit_request(
    texts: Sequence[str], request_without_texts: Pieces, max_reply_tokens: int, model: MeteredModel
) -> int:
    """How many of the texts, from the first on, fit into the window of `model` beside the rest of
    the request and the reply.

    Args:
        texts: The texts.
        request_without_texts: The prompt as it is without any of them.
        max_reply_tokens: Most tokens of the reply.
        model: The model that is asked.

    Raises:
        WindowExceeded: The request does not fit without a text.
    """
    used_tokens = prompt_tokens(request_without_texts, model) + max_reply_tokens
    window_tokens = model.window
    if used_tokens > window_tokens:
        raise WindowExceeded(
            f"a request with its reply takes {used_tokens} tokens, more than the window of "
            f"{window_tokens} tokens of '{model.name}'; raise model.window or lower the method's "
            "lengths of replies"
        )
    return how_many_fit(texts, window_tokens - used_tokens, model)
