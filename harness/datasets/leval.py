"""L-Eval (An et al., ACL 2024): 20 tasks on long documents, each with several instructions.

    {"input": "..", "instructions": ["Question 1. ..", ..], "outputs": ["BD", ..],
     "source": "coursera_a", "evaluation": "exam"}

The layout of LEval-data (OpenLMLab/LEval), also that of L4NLP/LEval. `evaluation` says how the
authors score a document's answers: "exam" by exact match, "f1" and "rouge" by words; those that a
model or a person rates ("LLM", "human") are left out, as in their runs of these scores.
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

RATED_BY_JUDGE = "rated by a model or a person"


class _Row(StrictRow):
    input: str
    instructions: list[str]
    outputs: list[str]
    evaluation: str


def _example(number: int, document: Document, question_text: str, gold_answer: str) -> Example:
    """Make one question of a document.

    Args:
        number: Its number in the row, from 0.
        document: The document.
        question_text: Its words.
        gold_answer: The accepted answer.

    Raises:
        RowError: One of the two is blank.
    """
    refuse_blank({f"instructions[{number}]": question_text})
    answers = clean_answers([gold_answer], f"outputs[{number}]")
    question = Question(f"{document.id}-{number}", question_text, (document.id,))
    return Example(question, Gold(answers))


def parse_row(raw: RawRow) -> Group | Skip:
    """Parse one document with its questions, {"input": text, "instructions": questions, "outputs":
    answers, "evaluation": how they are scored}.

    Skip where a model or a person is to rate the answers. Raises RowError, which names the field.
    """
    row = _Row.read(raw)
    if row.evaluation in ("LLM", "human"):
        return Skip(RATED_BY_JUDGE)
    refuse_blank({"input": row.input})
    if len(row.outputs) != len(row.instructions):
        wanted = f"should be one of each of {len(row.instructions)} instructions"
        raise RowError("outputs", f"{wanted}, are {len(row.outputs)}")
    text_and_questions = "\n".join([row.input, *row.instructions])
    document = Document(id_from_text("leval", text_and_questions), row.input)
    questions_and_answers = zip(row.instructions, row.outputs, strict=True)
    examples = []
    for number, (question_text, gold_answer) in enumerate(questions_and_answers):
        examples.append(_example(number, document, question_text, gold_answer))
    return Group(document, tuple(examples))
