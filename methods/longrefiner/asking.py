"""The three tasks of the refiner's model: analysis, structuring and selection."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from harness.errors import WindowExceeded
from harness.method import Tools
from harness.models import MeteredModel
from harness.prompts import feed, prompt_tokens
from harness.types import Document, Question, Step
from methods.chunks import Span
from methods.kept_text import join_spans, kept_spans
from methods.longrefiner import prompts
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.outline import Part, parse_outline
from methods.longrefiner.pages import body_spans
from methods.longrefiner.scores import selectable_titles
from methods.longrefiner.tree import Tree, build_tree
from methods.reading import question_text

StoreResult = Callable[[str, Callable[[], Any]], Any]

_OUTLINE_SHARE = 0.4  # of a short window, for the outline
_SPARE_TOKENS = (
    64  # tokens of an outline beside twice those of its text: a longer one repeats itself
)


def body_start(document: Document) -> int:
    """Where the text begins after a first line with the document's title; 0 without such a line or
    without other text."""
    line, _, body = document.text.partition("\n")
    is_title = bool(line.strip()) and line.strip().strip('"') == document.title.strip()
    if not is_title or not body.strip():
        return 0
    return len(document.text) - len(body.lstrip())


def text_spans(document: Document, keep_headings: bool) -> list[Span]:
    """The spans of a document that the model gets to outline: all but the title line and, unless
    they are kept, headings. Where that leaves nothing, headings count as text."""
    start = body_start(document)
    whole_text = [(start, len(document.text))]
    if keep_headings:
        return whole_text
    spans_between_headings = body_spans(document.text[start:])
    spans = [
        (start + span_start, start + span_end) for span_start, span_end in spans_between_headings
    ]
    has_text = any(document.text[span_start:span_end].strip() for span_start, span_end in spans)
    if has_text:
        return spans
    return whole_text


def build_tree_of_document(
    document: Document, config: LongRefinerConfig, model: MeteredModel, store_result: StoreResult
) -> Tree:
    """Make the tree of a document without its title line.

    Without an outline that matches the text, the tree has chunks of sentences
    (docs/methods/longrefiner.md#longrefiner-title: the title line).

    Args:
        document: The document.
        config: The method's settings.
        model: The refiner's model.
        store_result: `Tools.keep`, which stores what the model writes, so that a stopped index goes
            on.

    Raises:
        WindowExceeded: The prompt alone fills the window.
    """
    # Used for its places alone: of the text to outline in the document.
    text_tree = Tree(kept=text_spans(document, config.keep_headings))
    text_to_outline = text_tree.kept_document(document).text
    tree = _build_tree_of_text(text_to_outline, config, model, store_result)
    if not tree.kept:  # the tree has all of that text
        tree.kept = text_tree.kept
        return tree
    # The tree has spans of that text: they become spans of the document.
    spans: list[Span] = []
    for start, end in tree.kept:
        spans += text_tree.spans_in_document(start, end)
    tree.kept = join_spans(spans)
    return tree


def _build_tree_of_text(
    text: str, config: LongRefinerConfig, model: MeteredModel, store_result: StoreResult
) -> Tree:
    """The tree of a text, by the outline that the model writes of it; without structuring, or of an
    empty text, without an outline.

    The tree's notes say where the outline is of a part of the text, or was cut off.

    Args:
        text: The text; what does not fit is left out of its middle before it is outlined.
        config: The method's settings.
        model: The refiner's model.
        store_result: `Tools.keep`, which stores the outline, so that a stopped index goes on.

    Raises:
        WindowExceeded: The prompt alone fills the window.
    """
    if not config.structuring or not text.strip():
        return build_tree(text, Part("root"), config, model)
    spans, tokens_of_text = kept_spans(text, _max_tokens_to_outline(config, model), model)
    texts_shown = [text[start:end] for start, end in spans]
    max_reply_tokens = min(config.outline_tokens, 2 * tokens_of_text + _SPARE_TOKENS)
    outline_as_text, reply_end = store_result(
        "outline", partial(_ask_for_outline, texts_shown, max_reply_tokens, config, model)
    )
    tree = build_tree(text, parse_outline(outline_as_text), config, model)
    if spans != [(0, len(text))]:
        tokens_shown = sum(map(model.count, texts_shown))
        tree.notes.append(
            f"the outline is of {tokens_shown} of {tokens_of_text} tokens, the middle was left out"
        )
    if reply_end == "length":
        tree.notes.append("the outline ended at its limit of tokens")
    return tree


def _max_tokens_to_outline(config: LongRefinerConfig, model: MeteredModel) -> int:
    """How many tokens of a document the request for its outline may show: `document_tokens`, or
    what the window leaves beside the prompt and the outline.

    Raises:
        WindowExceeded: The prompt alone fills the window.
    """
    tokens_of_prompt = prompt_tokens(prompts.structuring(["", ""], config), model)
    tokens_left = model.window - tokens_of_prompt
    outline_tokens = min(config.outline_tokens, int(tokens_left * _OUTLINE_SHARE))
    if outline_tokens < 1:
        raise WindowExceeded(
            f"the window of '{model.name}' ({model.window} tokens) has no room for a document "
            f"beside the prompt of {tokens_of_prompt} tokens that asks for its outline; raise "
            "model.window or set method.structuring=false"
        )
    return min(config.document_tokens, tokens_left - outline_tokens)


def _ask_for_outline(
    texts_shown: Sequence[str],
    max_reply_tokens: int,
    config: LongRefinerConfig,
    model: MeteredModel,
) -> tuple[str, str]:
    """Ask for the outline of a text.

    Args:
        texts_shown: The text, or its two ends where the middle is left out.
        max_reply_tokens: Most tokens of the outline, or fewer where the window leaves fewer.
        config: The method's settings.
        model: The refiner's model.

    Returns:
        The outline as text, and how the reply ended ("length": by the limit of tokens).
    """
    with model.session(config.adapter("structuring", model)) as session:
        feed(session, prompts.structuring(texts_shown, config))
        reply = session.write(min(max_reply_tokens, session.room() - model.turn_tokens()))
    return reply.text, reply.finish


def ask_for_global_weight(
    question: Question, config: LongRefinerConfig, tools: Tools
) -> tuple[float, Step]:
    """Ask the model for the weight R of the global scores: P(Global) / (P(Local) + P(Global)) after
    "[" (LongRefiner, eq. 1).

    Args:
        question: The question.
        config: The method's settings.
        tools: The engine's tools.

    Returns:
        R, which is 1/2 where both probabilities are 0, and the step "analysis" of the trace.
    """
    model = tools.model("refiner")
    with model.session(config.adapter("analysis", model)) as session:
        feed(session, prompts.analysis(question_text(question), config))
        prompt_length = session.length()
        probe = session.probe(prompts.LABELS, after=prompts.LABEL_BEGIN)
    # `mass` are the model's probabilities of the labels; `p` are these scaled so that they sum to 1.
    p_local = probe.mass["Local"]
    p_global = probe.mass["Global"]
    weight = 0.5
    if sum(probe.mass.values()) > 0:
        weight = probe.p["Global"]
    scores = {"weight": weight, "p_local": p_local, "p_global": p_global}
    return weight, Step("analysis", scores=scores, tokens=prompt_length, flops=tools.meter.flops())


def titles_as_text(tree: Tree) -> str:
    r"""The titles of a tree as the selection is shown them, a line each; sub-sections are numbered
    in their section.

        "\nSection1: Life\nSubsection1: Youth\nSubsection2: Later years\nSection2: Works"
    """
    lines: list[str] = []
    section_number = 0
    subsection_number = 0
    for node in tree.nodes:
        if node.kind == "section":
            section_number += 1
            subsection_number = 0
            lines.append(f"Section{section_number}: {node.title}")
        elif node.kind == "sub-section":
            subsection_number += 1
            lines.append(f"Subsection{subsection_number}: {node.title}")
    return "".join("\n" + line for line in lines)


@dataclass(frozen=True)
class TitleSelection:
    """The selection of one document; titles: the selected ones that the document has,
    case-folded."""

    titles: frozenset[str]
    step: Step


class AbstractAndOutline(NamedTuple):
    """What the request to select titles shows of a document: its abstract, and its titles as a
    list, one a line."""

    abstract: str
    outline: str


def abstract_and_outline(
    question: Question,
    title: str,
    text: str,
    tree: Tree,
    config: LongRefinerConfig,
    model: MeteredModel,
) -> AbstractAndOutline:
    """The abstract and the list of titles that the request to select titles shows, in use and in
    training.

    Args:
        question: The question.
        title: The document's title.
        text: The document's text.
        tree: The document's tree.
        config: The method's settings; the abstract is cut at `abstract_tokens`.
        model: The refiner's model; the list is cut where its window ends.

    Raises:
        WindowExceeded: Nothing fits.
    """
    abstract_nodes = [node for node in tree.nodes if node.kind == "abstract"]
    words = " ".join(text[node.start : node.end] for node in abstract_nodes).split()
    abstract = _first_tokens(" ".join(words), config.abstract_tokens, model)
    request_without_titles = prompts.selection(
        question_text(question), title, abstract, outline="", config=config
    )
    used_tokens = prompt_tokens(request_without_titles, model) + config.selection_tokens
    max_outline_tokens = model.window - used_tokens
    if max_outline_tokens < 0:
        raise WindowExceeded(
            "the question with an abstract and the list of titles takes "
            f"{used_tokens} tokens, more than the window of {model.window} "
            f"of '{model.name}'; lower method.abstract_tokens or method.selection_tokens"
        )
    outline = _first_tokens(titles_as_text(tree), max_outline_tokens, model)
    return AbstractAndOutline(abstract, outline)


def ask_for_titles(
    question: Question, document: Document, tree: Tree, config: LongRefinerConfig, tools: Tools
) -> TitleSelection:
    """Ask which parts of a document help with a question (task 3).

    A document without titled parts needs no request. A reply without a list of titles selects none,
    and is counted as one that could not be read. Titles that the document does not have are only
    noted.

    Args:
        question: The question.
        document: The document.
        tree: The document's tree.
        config: The method's settings.
        tools: The engine's tools.

    Raises:
        WindowExceeded: Nothing fits.
    """
    name = document.title or document.id
    selectable: set[str] = set()
    for node in tree.nodes:
        selectable |= selectable_titles(node)
    if not selectable:
        return TitleSelection(frozenset(), Step("titles", note=f"{name}: no titles to select"))
    model = tools.model("refiner")
    abstract, outline = abstract_and_outline(
        question, document.title, document.text, tree, config, model
    )
    request = prompts.selection(question_text(question), document.title, abstract, outline, config)
    with model.session(config.adapter("selection", model)) as session:
        feed(session, request)
        prompt_length = session.length()
        written = session.write(config.selection_tokens)
        titles = prompts.parse_titles(written.text)
        if titles is None:
            session.count_reply(written)
    selected = titles or frozenset()
    known_titles = selected & selectable
    unknown_titles = selected - known_titles
    note = f"{name}: {_titles_note(known_titles, unknown_titles)}"
    if titles is None:
        note += f"; no list in the reply {written.text.strip()[:60]!r}"
    scores = {"selected": float(len(known_titles)), "unknown": float(len(unknown_titles))}
    step = Step(
        "titles",
        scores=scores,
        tokens=prompt_length,
        flops=tools.meter.flops(),
        note=note,
    )
    return TitleSelection(known_titles, step)


def _titles_note(known_titles: frozenset[str], unknown_titles: frozenset[str]) -> str:
    """The selected titles as a note of the trace: those of the outline, then those that it
    has not."""
    note = prompts.titles_reply(sorted(known_titles))
    if unknown_titles:
        note += f"; not in the outline: {prompts.titles_reply(sorted(unknown_titles))}"
    return note


def _first_tokens(text: str, max_tokens: int, model: MeteredModel) -> str:
    """The beginning of a text, at most so many tokens of it."""
    spans, _ = kept_spans(text, max_tokens, model, kept_side="left")
    return "".join(text[start:end] for start, end in spans)
