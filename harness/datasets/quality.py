"""QuALITY (Pang et al., NAACL 2022): articles of some 5,000 words, each with multiple-choice
questions, easy and hard.

    official   {"article_id": "23592", "set_unique_id": "23592_U", "title": "..", "article": "..",
                 "questions": [{"question": "..", "question_unique_id": "23592_U_1", "options": [..],
                                "gold_label": 1, "difficult": 0}, ..]}
    hub copy   a row a question: {"article": "..", "question": "..", "options": [..], "answer": 0, "hard": false}

Official labels count from 1, the hub copy's `answer` from 0. An article has two rows, one a writer
of questions; their questions share it. `difficult` is 1 where fewer than half of the annotators
under time pressure were right. The answer is the text of the right option. The official files with
HTML are read too, as Markdown; those named "htmlstripped" are the better choice (a reader script of
the authors made them).
"""

import re

from harness.datasets.html_markdown import html_to_markdown
from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import Group, RowError, StrictRow, id_from_text, refuse_blank
from harness.types import Document, Example, Gold, Question

NO_LABEL = (
    "the question has no label (those of the test split are not published; use the dev split)"
)
_MAX_OPTIONS = 26  # one for each letter
_TAG = re.compile(r"<(?:!doctype html|html|body|p|br|div|h[1-6])\b[^<>]*>", re.IGNORECASE)
_CHARACTERS_WITH_A_TAG = 5000  # of the beginning of an article of HTML


class _Question(StrictRow):
    question: str
    question_unique_id: str
    options: list[str]
    gold_label: int | None = None
    difficult: int | None = None


class _Article(StrictRow):
    article_id: str
    article: str
    title: str | None = None
    questions: list[_Question]


class _HubRow(StrictRow):
    article: str
    question: str
    options: list[str]
    answer: int | None = None
    hard: bool | None = None


def _example(row_question: _Question, field: str, document: Document) -> Example:
    """Make a question with its gold answer, the text of the right option.

    Gold.extra has gold_label (from 1), all_classes (the options), and difficult where known.

    Args:
        row_question: The question as the row has it.
        field: Its place in the row, for messages: "questions[0]"; "" for a row of its own.
        document: The article.

    Raises:
        RowError: A field cannot be used.
    """
    prefix = ""
    if field:
        prefix = f"{field}."
    question_id = row_question.question_unique_id
    refuse_blank(
        {f"{prefix}question_unique_id": question_id, f"{prefix}question": row_question.question}
    )
    options = tuple(row_question.options)
    if not 2 <= len(options) <= _MAX_OPTIONS:
        problem = f"should be 2 to {_MAX_OPTIONS} options, are {len(options)}"
        raise RowError(f"{prefix}options", problem)
    for number, option in enumerate(options):
        if not option.strip():
            raise RowError(f"{prefix}options[{number}]", "is blank")
    label = row_question.gold_label
    if label is None:
        raise RowError(f"{prefix}gold_label", NO_LABEL)
    if not 1 <= label <= len(options):
        raise RowError(f"{prefix}gold_label", f"should be 1 to {len(options)}, is {label}")
    difficult = row_question.difficult
    if difficult not in (None, 0, 1):
        raise RowError(f"{prefix}difficult", f"should be 0 or 1, is {difficult}")
    extra: dict[str, object] = {"gold_label": label, "all_classes": list(options)}
    if difficult is not None:
        extra["difficult"] = difficult
    question = Question(question_id, row_question.question, (document.id,), options)
    right_option = options[label - 1]
    return Example(question, Gold((right_option,), extra=extra))


def _article_document(id_prefix: str, article: str, title: str) -> Document:
    """Make the document of an article; HTML becomes Markdown.

    Args:
        id_prefix: The document's id is this and a hash of the text.
        article: The article, plain text or HTML.
        title: Its title.

    Raises:
        RowError: It is blank.
    """
    text = article
    is_html = _TAG.search(article[:_CHARACTERS_WITH_A_TAG])
    if is_html:
        text = html_to_markdown(article).markdown
    refuse_blank({"article": text})
    return Document(id_from_text(id_prefix, text, digits=8), text, title)


def _parse_hub_row(raw: RawRow) -> Group:
    """Parse a row of the hub copy: an article and one question, whose id is made of its texts.

    Raises RowError, which names the field.
    """
    row = _HubRow.read(raw)
    document = _article_document("quality", row.article, title="")
    options = row.options
    if row.answer is None:
        raise RowError("answer", NO_LABEL)
    if not 0 <= row.answer < max(len(options), 1):
        raise RowError("answer", f"should be 0 to {len(options) - 1}, is {row.answer}")
    difficult = None
    if row.hard is not None:
        difficult = int(row.hard)
    texts_of_question = "\n".join([document.id, row.question, *options])
    question = _Question(
        question=row.question,
        question_unique_id=id_from_text("quality", texts_of_question),
        options=options,
        gold_label=row.answer + 1,  # the hub copy counts from 0
        difficult=difficult,
    )
    return Group(document, (_example(question, field="", document=document),))


def parse_row(raw: RawRow) -> Group:
    """Parse one QuALITY row: {"article": text, "questions": [..], ..}, or the hub copy's
    {"article", "question", "options", "answer"}.

    Raises RowError, which names the field.
    """
    has_one_question = "questions" not in raw and "question" in raw
    if has_one_question:
        return _parse_hub_row(raw)
    row = _Article.read(raw)
    refuse_blank({"article_id": row.article_id})
    document = _article_document(row.article_id, row.article, row.title or "")
    examples = []
    for number, question in enumerate(row.questions):
        examples.append(_example(question, f"questions[{number}]", document))
    return Group(document, tuple(examples))
