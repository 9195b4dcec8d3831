"""The three adapters as `harness train longrefiner` trains and measures them.

analysis      accuracy: the likelier of Local and Global is right; the floor is the commoner of the two
structuring   F1 of outlines: parts (kind and title) and clips (head, tail and where they stand) of what was written
selection     F1 of selected titles; where none helps, 1 for an empty list and 0 for any other

Labels by a teacher model, where no world knows them (LongRefiner, appendix D, in our words):

analysis      the teacher says whether a question is local or global          one scene a question
structuring   the page's own headings, else the teacher's outline             one scene a document
selection     the teacher selects titles of the *trained* model's outline     one scene a question and document

What a teacher says that cannot be read makes no scene.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import Any

from harness.errors import ModelOutputError
from harness.prompts import Prompt, feed
from harness.types import Document, Question
from harness_training.method_skills.longrefiner import task_skills
from harness_training.tasks import Labelling, Scene, SceneOutcome, TrainingTask
from methods.longrefiner import prompts
from methods.longrefiner.asking import abstract_and_outline, body_start, build_tree_of_document
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.outline import Clip, Part, parse_outline, write_outline
from methods.longrefiner.pages import page_from_text
from methods.longrefiner.scores import selectable_titles
from methods.longrefiner.tree import Tree, build_tree
from methods.reading import question_text
from methods.values import values_in

_BREADTH_PROMPT = (
    "Questions are put to a collection of documents. Decide of the question below which kind it "
    "is.\n"
    '"local": its answer is clear and fixed, such as a name, a date, a choice or yes or no, and a few short passages '
    "are enough, also where facts must be combined or compared.\n"
    '"global": it is broad or open, such as a request for reasons, an explanation or an overview, and much of a '
    "document must be understood.\n\nQuestion: {question}\n\n"
    'Reply with JSON alone: {"query_type": "local"} or {"query_type": "global"}.'
)
_SELECTION_PROMPT = (
    "Below are the abstract and the outline of a document, and a question. Select every part that "
    "may help to answer it, also one that helps only together with others, and leave out what "
    "does not.\n\n"
    "Title: {title}\n"
    "Abstract: {abstract}\n\n"
    "Outline:{outline}\n\n"
    "Question: {question}\n\n"
    'Reply with a JSON list alone, of titles as they stand in the outline, or "abstract": '
    '["title", "title"]. Reply [] where no part helps.'
)
PROMPTS = {"analysis": _BREADTH_PROMPT, "selection": _SELECTION_PROMPT}  # of the teacher, by task
_MAX_REPLY_TOKENS = 256  # tokens of a teacher's reply to the short tasks
_MIN_SHARE_PLACED = 0.9  # share of a text that a teacher's outline must stand for


def label_breadth(
    question: Question | None, _documents: Sequence[Document], tools: Labelling
) -> list[Scene]:
    """Let the teacher say whether a question is local or global: one scene of kind "breadth"; [] if
    its reply names neither."""
    assert question is not None  # this task has one request per question
    level = parse_level(_teacher_reply(tools, _BREADTH_PROMPT, question=question_text(question)))
    if level is None:
        return []
    return [Scene(question, (), tools.task, verdicts=(level == "local",))]


def parse_level(reply: str) -> str | None:
    """ "local" or "global" of a reply: '{"query_type": "local"}' -> "local"; None where it has
    neither."""
    for value in values_in(reply):
        if not isinstance(value, dict):
            continue
        kind = str(value.get("query_type")).strip("[]' ").lower()
        if kind in ("local", "global"):
            return kind
    return None


def label_outline(
    _question: Question | None, documents: Sequence[Document], tools: Labelling
) -> list[Scene]:
    """Scenes of kind "outline", one for each document that has a usable outline: the body of a page
    with its headings' outline, or the text as it is with the teacher's."""
    scenes = [_outline_scene(document, tools) for document in documents]
    return list(filter(None, scenes))


def _outline_scene(document: Document, tools: Labelling) -> Scene | None:
    """A document without its title as a scene, whose reply is its outline, from its headings or by
    the teacher; None where it has no usable one."""
    text = document.text[body_start(document) :]
    outline_text: str | None = None
    page = page_from_text(text, tools.offsets)  # None for a text without headings
    if page is not None:
        text = page.text
        outline_text = write_outline(page.outline)
    elif text.strip():
        outline_text = _teacher_outline(text, tools)
    if outline_text is None:
        return None
    no_question = Question(id="scene", text="", document_ids=("scene",))
    return Scene(no_question, (text,), task=tools.task, replies=(outline_text,))


def _teacher_outline(text: str, tools: Labelling) -> str | None:
    """The outline that the teacher writes of a text; None where it has no titles, or too few of its
    parts are found in the text.

    Raises:
        ModelOutputError: The outline was cut off.
    """
    teacher = tools.teacher()
    max_tokens = tools.at_most_a_row(2 * teacher.count(text) + 64)
    prompt = Prompt("labels", tools.asked or prompts.STRUCTURING.text)
    with teacher.session() as session:
        feed(session, prompt.fill(text=[text]))
        tokens_left_in_window = session.room() - teacher.turn_tokens()
        reply = session.write(max(1, min(max_tokens, tokens_left_in_window)))
    if reply.finish == "length":
        raise ModelOutputError(
            f"the outline was not at its end after {reply.span.end - reply.span.start} tokens"
        )
    root = parse_outline(reply.text)
    tree = build_tree(text, root, LongRefinerConfig(scoring="bm25"), teacher)
    is_titled = any(node.kind != "abstract" and not node.is_leaf for node in tree.nodes)
    if not is_titled or tree.placed < _MIN_SHARE_PLACED:
        return None
    return write_outline(root)


def label_titles(
    config: LongRefinerConfig,
    question: Question | None,
    documents: Sequence[Document],
    tools: Labelling,
) -> list[Scene]:
    """Let the teacher select titles of each document: a scene of kind "titles" for each that has
    titles and for which the reply is a list.

    A document's tree is made by the base with its trained structuring adapter.

    Args:
        config: The method's settings.
        question: The question.
        documents: Its documents.
        tools: The teacher and the base.
    """
    assert question is not None  # this task has one request per question
    scenes = []
    for document in documents:
        model = tools.base()
        build_tree = partial(build_tree_of_document, document, config, model, _call_without_storing)
        # Built once for all questions about the document, and kept in memory only.
        tree: Tree = tools.once(document.text, build_tree)
        has_titles = any(selectable_titles(node) for node in tree.nodes)
        if not has_titles:
            continue
        title = document.title
        kept_text = tree.kept_document(document).text
        abstract, outline_text = abstract_and_outline(
            question, title, kept_text, tree, config, model
        )
        prompt_values = {"title": title, "abstract": abstract, "outline": outline_text}
        teacher_reply = _teacher_reply(
            tools, _SELECTION_PROMPT, question=question_text(question), **prompt_values
        )
        helpful_titles = prompts.parse_titles(teacher_reply)
        if helpful_titles is None:  # it is no list
            continue
        helpful_nodes = [node for node in tree.nodes if selectable_titles(node) & helpful_titles]
        titles = [node.title or "abstract" for node in helpful_nodes]
        reply = prompts.titles_reply(list(dict.fromkeys(titles)))  # each title once
        texts = (title, abstract, outline_text)
        scenes.append(Scene(question, texts, task=tools.task, replies=(reply,)))
    return scenes


def _call_without_storing(_key: str, fn: Callable[[], Any]) -> Any:
    """The result of `fn`, in place of `Tools.keep`: nothing is stored."""
    return fn()


def _teacher_reply(tools: Labelling, prompt: str, **values: str) -> str:
    """The teacher's reply to a prompt filled with values, or to the user's prompt in its place.
    Raises WindowExceeded where it is too long."""
    with tools.teacher().session() as session:
        session.user("".join(Prompt("labels", tools.asked or prompt).fill(**values)))
        return session.write(_MAX_REPLY_TOKENS).text


def tasks(config: LongRefinerConfig) -> list[TrainingTask]:
    """The training tasks of the three adapters in the order of training: titles are selected from
    outlines of the trained model."""
    skill_by_task = {
        skill.name.removeprefix("longrefiner "): skill for skill in task_skills(config)
    }
    config_with_structuring = config.model_copy(update={"structuring": True})
    analysis = TrainingTask(
        name="analysis",
        skill=skill_by_task["analysis"],
        headline="accuracy",
        measure=_accuracy,
        label=label_breadth,
        floor=_share_of_commoner_verdict,
        asked=PROMPTS["analysis"],
        classes=prompts.LABELS,
    )
    structuring = TrainingTask(
        name="structuring",
        skill=skill_by_task["structuring"],
        headline="outline F1",
        measure=_outline_scores,
        label=label_outline,
        per="document",
        asked=prompts.STRUCTURING.text,
    )
    selection = TrainingTask(
        name="selection",
        skill=skill_by_task["selection"],
        headline="selection F1",
        measure=_selection_scores,
        label=partial(label_titles, config_with_structuring),
        after=("structuring",),
        asked=PROMPTS["selection"],
    )
    return [analysis, structuring, selection]


def f1(predicted: Collection[Hashable], right: Collection[Hashable]) -> float:
    """Harmonic mean of precision and recall of multisets; 1 where both are empty.

    ["a", "b"], ["b", "c"] -> 0.5
    """
    if not predicted and not right:
        return 1.0
    n_common = sum((Counter(predicted) & Counter(right)).values())
    return 2 * n_common / (len(predicted) + len(right))


def outline_items(outline: Part, title_above: str = "") -> list[Hashable]:
    """The items of an outline that F1 compares: parts as (kind, folded title), clips as (title of
    their part, head, tail).

    Args:
        outline: The outline, or a part of it.
        title_above: The folded title of that part; "" for the whole outline.
    """
    items: list[Hashable] = []
    for child in outline.children:
        if isinstance(child, Clip):
            items.append((title_above, child.head, child.tail))
        else:
            part_title = prompts.folded(child.title) or child.kind
            items += [(child.kind, part_title), *outline_items(child, part_title)]
    return items


def _accuracy(scene: Scene, outcome: SceneOutcome) -> dict[str, float]:
    """Whether the scene's probe is right: {"accuracy": 1.0 or 0.0}."""
    says_first = outcome.p_first[0] > 0.5
    return {"accuracy": float(says_first == scene.verdicts[0])}


def _share_of_commoner_verdict(scenes: Sequence[Scene]) -> float:
    """The share of the commoner verdict: what always giving it reaches."""
    share_local = sum(scene.verdicts[0] for scene in scenes) / len(scenes)
    return max(share_local, 1 - share_local)


def _outline_scores(scene: Scene, outcome: SceneOutcome) -> dict[str, float]:
    """Scores of the outline that was written: {"outline F1": parts and clips, "title F1": parts
    alone, "exact": 1.0 if it equals the right one}."""
    predicted = outline_items(parse_outline(outcome.written[0]))
    right = outline_items(parse_outline(scene.replies[0]))
    return {
        "outline F1": f1(predicted, right),
        "title F1": f1(_parts_of_outline_items(predicted), _parts_of_outline_items(right)),
        "exact": float(predicted == right),
    }


def _parts_of_outline_items(items: Sequence[Hashable]) -> list[Hashable]:
    """Those of an outline's items that are parts: (kind, title)."""
    return [item for item in items if isinstance(item, tuple) and len(item) == 2]


def _selection_scores(scene: Scene, outcome: SceneOutcome) -> dict[str, float]:
    """Scores of the titles that were selected: {"selection F1": ..., "exact": 1.0 if they are the
    right ones}; both 0 for a reply without a list."""
    written = outcome.written[0]
    predicted = prompts.parse_titles(written) or frozenset()
    right = prompts.parse_titles(scene.replies[0]) or frozenset()
    is_list = "[" in written  # no list at all is not the same as an empty one
    if not is_list:
        return {"selection F1": 0.0, "exact": 0.0}
    return {"selection F1": f1(predicted, right), "exact": float(predicted == right)}
