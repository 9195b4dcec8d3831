"""MemoryAgentBench (Hu et al., ICLR 2026): up to a hundred questions on each of some long contexts.

    {"context": "..", "questions": ["..", ..], "answers": [["Ada", "A."], ..],
     "metadata": {"source": "factconsolidation_mh_32k", "qa_pair_ids": ["..", ..], ..}}

The layout of ai-hyz/MemoryAgentBench, a file each of four abilities; `source` is the set
(load_data_huggingface in utils/eval_data_utils.py). Not here are the sets that a model rates
(LongMemEval, which is a data set of its own, and summaries) and the recommendations of films.
"""

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    RowError,
    Skip,
    StrictRow,
    clean_answers,
    id_from_text,
    refuse_blank,
)
from harness.types import Document, Example, Gold, Question


class _Metadata(StrictRow):
    source: str


class _Row(StrictRow):
    context: str
    questions: list[str]
    answers: list[list[str]]
    metadata: _Metadata


def parse_row(raw: RawRow, *, split: str) -> Group | Skip:
    """Parse one context with its questions, {"context": text, "questions", "answers", "metadata"}.

    Gold.extra: type, the name of the set.

    Args:
        raw: The row.
        split: How the names of the sets that are asked begin; rows of others are left out.

    Raises:
        RowError: A field is missing or cannot be used; the error names it.
    """
    row = _Row.read(raw)
    set_name = row.metadata.source
    if not set_name.startswith(split):
        return Skip(f"not of '{split}'")
    refuse_blank({"context": row.context})
    if len(row.answers) != len(row.questions):
        wanted = f"should be a list of each of {len(row.questions)} questions"
        raise RowError("answers", f"{wanted}, are {len(row.answers)}")
    document = Document(id_from_text(set_name, row.context), row.context)
    examples = []
    questions_and_answers = zip(row.questions, row.answers, strict=True)
    for number, (question_text, answers) in enumerate(questions_and_answers):
        refuse_blank({f"questions[{number}]": question_text})
        question = Question(f"{document.id}-{number}", question_text, (document.id,))
        gold = Gold(clean_answers(answers, f"answers[{number}]"), extra={"type": set_name})
        examples.append(Example(question, gold))
    return Group(document, tuple(examples))
