"""LLMLingua (Jiang et al. 2023, arXiv 2310.05736) and LongLLMLingua (arXiv 2310.06839).

    document ──contexts──► package llmlingua ranks contexts and drops tokens ──► the shared reading prompt

LLMLingua does not read the question, so a document is compressed once, when it is indexed;
LongLLMLingua compresses for every question. See docs/methods/compression.md#lingua-tokens.
"""

from collections.abc import Sequence
from typing import ClassVar

from harness.errors import CannotRun, Missing
from harness.method import Index, Indexes, Needs, Tools, Traits
from harness.types import Answer, Document, Question
from methods import reading
from methods.compression import library, show
from methods.compression.config import LinguaConfig, LLMLinguaConfig, LongLLMLinguaConfig
from methods.compression.contexts import context_spans


class LLMLingua(show.CompressedMethod):
    """Drop the tokens that a small model predicts well; the question plays no part."""

    Config = LLMLinguaConfig
    summary = "tokens that a small model can guess are left out (LLMLingua)"
    traits = Traits(draws=False)
    index_version = "2"

    def problems(self) -> list[str]:
        """No sentence, as no setting is wrong by itself; checks that the package is installed.

        Raises:
            Missing: It is not.
        """
        return _check_package()

    def index_packages(self) -> tuple[str, ...]:
        """The package that chooses what is kept; the index depends on its version."""
        return (library.PACKAGE,)

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document: the compressed document (`Compressed.to_index`)."""
        return compress_document(document, self.config, tools).to_index()


class LongLLMLingua(reading.ReadingMethod):
    """Contexts by how well the question follows them, tokens by what the question changes about
    their surprise."""

    Config = LongLLMLinguaConfig
    summary = "contexts and tokens that matter to the question are kept (LongLLMLingua)"
    traits = Traits(draws=False)
    needs: ClassVar[Needs] = {"reader": frozenset(), "compressor": frozenset({"score"})}

    def problems(self) -> list[str]:
        """No sentence, as no setting is wrong by itself; checks that the package is installed.

        Raises:
            Missing: It is not.
        """
        return _check_package()

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Compress the document for the question, to no more than the reader's window holds, then
        answer from the compressed text."""
        (document,) = documents
        request = reading.Reading(tools.task, window=self.config.window, config=self.config)
        # Cutting off what does not fit loses its end; a lower target loses what matters least.
        max_tokens = max(reading.room_for_text(question, tools, tools.model(), request), 1)
        with tools.phase("search"):
            compressed = compress_document(document, self.config, tools, question.text, max_tokens)
        return show.answer_from_compressed(question, document, compressed, tools, self.config)


def compress_document(
    document: Document,
    config: LinguaConfig,
    tools: Tools,
    question: str = "",
    max_tokens: int | None = None,
) -> show.Compressed:
    """Compress a document with the package llmlingua.

    Args:
        document: The document.
        config: Its `target_tokens`, else its `rate` of the document's tokens, is the target.
        tools: The engine's tools, whose compressor scores the tokens.
        question: The question, by which contexts and tokens are ranked; "" for none.
        max_tokens: The target is at most this; None: no limit.
    """
    model = tools.model("compressor")
    spans = context_spans(document, question, config, model)
    if not spans:
        return show.Compressed([], tokens_before=0, tokens_after=0)
    token_counts = [model.count(document.text[start:end]) for start, end in spans]
    target_tokens = sum(token_counts) * config.rate
    if config.target_tokens is not None:
        target_tokens = float(config.target_tokens)
    if max_tokens is not None:
        target_tokens = min(target_tokens, max_tokens)
    return library.compress_by_package(document, spans, target_tokens, question, config, tools)


def _check_package() -> list[str]:
    """[], after a check that the package llmlingua is installed. Raises Missing where it is not."""
    try:
        library.import_prompt_compressor()
    except CannotRun as error:
        raise Missing(str(error), f"the package {library.PACKAGE}") from error
    return []
