"""The contexts of a document, which LLMLingua ranks: a hard cut, sentences, or lines.

"Mira\\na b.\\nc d."  ──titled_line_spans──►  "Mira\\na b." | "c d."
"""

from harness.models import MeteredModel
from harness.types import Document
from methods.chunks import Span, fixed_chunks
from methods.compression.config import LinguaConfig
from methods.compression.surprise import SLACK_TOKENS
from methods.packing import packed_chunks

# LongLLMLingua's x^restrict (arXiv 2310.06839, section 4.1): it ties the question to the documents.
# The package puts it after the question.
RESTRICTIVE_SENTENCE = " We can get the answer to this question in the given documents."


def line_spans(text: str) -> list[Span]:
    r"""The spans of the lines that are not blank, without the white space around them.

    "Ann.\n\n Bob." -> [(0, 4), (7, 11)]
    """
    spans: list[Span] = []
    line_start = 0
    for line in text.splitlines(keepends=True):
        line_text = line.strip()
        if line_text:
            start = line_start + line.index(line_text)
            spans.append((start, start + len(line_text)))
        line_start += len(line)
    return spans


def titled_line_spans(document: Document) -> list[Span]:
    r"""The spans of the lines of a document; a title that is a line of its own goes with the line
    after it.

        "Mira\na b.\nc d." with the title "Mira" -> [(0, 9), (10, 14)]

    A title may stand in quotation marks. Of two lines that are titles, the second one is the text
    of the first. FlashRAG writes "Doc 1(Title: title) first line" and cuts at line breaks
    (docs/methods/compression.md#compression-contexts).
    """
    title_at_start = {passage.start: passage.title.strip() for passage in document.passages}
    spans: list[Span] = []
    follows_title = False
    for start, end in line_spans(document.text):
        if follows_title:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        is_title = document.text[start:end].strip('"') == title_at_start.get(start)
        follows_title = is_title and not follows_title
    return spans


def context_spans(
    document: Document, question: str, config: LinguaConfig, model: MeteredModel
) -> list[Span]:
    """The contexts that are ranked, as spans of the document, none of them blank.

    Args:
        document: The document.
        question: The question; "" for none. In "titled-lines" the compressor reads it and a fixed
            sentence beside each line, so that a line may have that many tokens less.
        config: Its `contexts` and `chunk_tokens` say how the document is cut.
        model: The compressor, by whose tokens it is cut.
    """
    text = document.text
    if config.contexts == "tokens":
        spans = fixed_chunks(text, config.chunk_tokens, model)
    elif config.contexts == "packed":
        spans = packed_chunks(text, config.chunk_tokens, model)
    elif config.contexts == "lines":
        spans = _cut_lines(text, line_spans(text), config.chunk_tokens, model)
    else:  # "titled-lines"
        tokens_beside_line = model.turn_tokens() + model.count(question + RESTRICTIVE_SENTENCE)
        max_tokens_of_line = max(model.window - tokens_beside_line - SLACK_TOKENS, 1)
        spans = _cut_lines(text, titled_line_spans(document), max_tokens_of_line, model)
    return [(start, end) for start, end in spans if text[start:end].strip()]


def _cut_lines(
    text: str, line_spans: list[Span], max_tokens: int, model: MeteredModel
) -> list[Span]:
    """The spans of lines, each that is too long cut into several.

    Args:
        text: The text.
        line_spans: The spans of its lines.
        max_tokens: Most tokens of a span.
        model: The model whose tokens are counted.
    """
    spans: list[Span] = []
    for start, end in line_spans:
        for part_start, part_end in fixed_chunks(text[start:end], max_tokens, model):
            spans.append((start + part_start, start + part_end))
    return spans
