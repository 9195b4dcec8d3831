"""Summary: a document is summarised, segment by segment, until it fits the window; the summaries
are read.

Source: QRMeM 3.1; docs/methods/qrmem.md#summary-baseline. The paper names the baseline and prints
neither a row nor a rule. Here the shared prompt makes the summaries; if they do not fit together,
consecutive ones are summarised again (methods/summary.py).
"""

from collections.abc import Sequence
from typing import ClassVar

from harness.errors import QuestionError
from harness.method import Index, Indexes, IndexTools, MethodConfig, Needs, Tools, Traits
from harness.method.settings import index_setting
from harness.types import Answer, Document, Question, Shown
from methods import reading
from methods.packing import clause_chunks
from methods.retry import window_of
from methods.summary import SUMMARY, condense


class Summarised(reading.ReadingMethod):
    """All of a document in summaries that fit one request."""

    class Config(MethodConfig):
        """Settings of this method."""

        segment_tokens: int = index_setting(600, gt=0, help="Most tokens of a segment.")
        summary_tokens: int = index_setting(200, gt=0, help="Most tokens of a summary.")
        window: int | None = index_setting(
            None,
            gt=0,
            help="Most tokens of a request, reply included; None = the builder's window.",
        )
        reserve: int = index_setting(
            400,
            gt=0,
            help=(
                "Tokens of the last request reserved for the prompt, the question and the answer."
            ),
        )

    summary = "summaries of all segments, summarised again until they fit the window"
    traits = Traits(draws=False)
    needs: ClassVar[Needs] = {"reader": frozenset(), "builder": frozenset()}
    scope = "document"
    index_roles: ClassVar[tuple[str, ...]] = ("builder",)
    index_version = "3"
    own_prompts = (SUMMARY,)

    def index(self, document: Document, tools: IndexTools) -> Index:
        """The index of a document: {"pieces": [[summary, start, end], ...]}, each with the part of
        the document that it covers.

        Segments are summarised, and summaries again, until all fit the window without `reserve`
        tokens. Empty summaries are left out.

        Raises:
            QuestionError: The window is too short for a summary.
        """
        config = self.config
        model = tools.model("builder")
        window = window_of(config.window, model)
        max_tokens_together = window - config.reserve
        if max_tokens_together < config.summary_tokens:
            raise QuestionError(
                f"a window of {window} tokens leaves {max(max_tokens_together, 0)} for summaries "
                f"beside method.reserve={config.reserve}; lower it or method.summary_tokens, or "
                "raise method.window"
            )
        spans = clause_chunks(document.text, config.segment_tokens, model)
        texts = [document.text[start:end].strip() for start, end in spans]
        # What parts two texts in the reading prompt may take a token more than the line's end that
        # condense counts.
        max_tokens_together -= len(texts) * model.count(reading.SEPARATOR)
        prompt = SUMMARY.with_replacements(config)
        summaries = condense(
            texts, max_tokens_together, config.summary_tokens, tools, model, window, prompt
        )
        rows: list[list[object]] = []
        for summary in summaries:
            if summary.text:
                start, _ = spans[summary.first_segment]
                _, end = spans[summary.last_segment]
                rows.append([summary.text, start, end])
        return {"pieces": rows}

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Answer from the summaries; the last are left out where the question leaves no room, and
        the answer's `truncated` says so."""
        (document,) = documents
        (index,) = indexes
        request = reading.Reading(tools.task, window=self.config.window, config=self.config)
        summaries = [(str(text), int(start), int(end)) for text, start, end in index["pieces"]]
        texts = [text for text, _, _ in summaries]
        reply, shown_count = reading.ask_fitting(question, texts, tools, request)
        shown: list[Shown] = []
        for text, start, end in summaries[:shown_count]:
            source = (document.id, start, end)
            shown.append(Shown("generated", document.id, text=text, sources=(source,)))
        if not summaries:
            return Answer(reply, stop_reason="the text is empty")
        if shown_count == len(summaries):
            return Answer(reply, tuple(shown), "whole")
        token_counts = list(map(tools.model().count, texts))
        truncated = {
            "side": "right",
            "tokens_before": sum(token_counts),
            "tokens_after": sum(token_counts[:shown_count]),
        }
        return Answer(reply, tuple(shown), "truncated", truncated=truncated)
