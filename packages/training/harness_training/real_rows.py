"""Training rows of real data sets: questions with their gold passages and other passages.

    rows = load_rows({"hotpotqa": "hotpot*train*", ...}, folder, training=True)
    rows[0].questions[0]           the row's question: text, answer, numbers of its gold passages
    rows[0].questions[1:]          its single-hop questions, where the data set has them (MuSiQue, 2WikiMultihopQA)

Only files whose name has a training split in it are read, so that no evaluation row is trained on.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.layers import Choices
from harness.config.resolve import resolve_dataset
from harness.config.schema import DatasetConfig
from harness.datasets.loading import load
from harness.errors import UserError
from harness.method import Task
from harness.types import Document, Example
from harness_training.question_sets import is_training_name, refuse_evaluation

_REFERENCE = re.compile(r"#(\d+)")
# Relation of 2WikiMultihopQA's evidence -> question; "{}" is the subject; others are left out.
_RELATIONS_FILE = Path(__file__).with_name("relation_questions.txt")
_RELATIONS = dict(line.split(": ") for line in _RELATIONS_FILE.read_text("utf-8").splitlines())


@dataclass(frozen=True)
class RowQuestion:
    """A question about a row's passages.

    Args:
        text: The question.
        answer: Its answer.
        gold_passages: Numbers of its gold passages; () if it is unanswerable.
    """

    text: str
    answer: str
    gold_passages: tuple[int, ...]


@dataclass(frozen=True)
class RealRow:
    """A row of a data set.

    Args:
        id: The id of its question.
        dataset: The preset of the data set.
        task: How it is to be answered.
        passages: The passages of its document.
        questions: Its own one first, then single-hop ones.
        steps: The decomposition of its own question, "#1" for step 1's answer.
    """

    id: str
    dataset: str
    task: Task
    passages: tuple[str, ...]
    questions: tuple[RowQuestion, ...]
    steps: tuple[str, ...] = ()


def check_apart(training: Sequence[RealRow], evaluation: Sequence[RealRow]) -> None:
    """Raise UserError where an evaluation row is a training row by its id or by its question.

    Args:
        training: The training rows.
        evaluation: The evaluation rows.
    """
    training_ids: set[str] = set()
    training_questions: set[str] = set()
    for row in training:
        training_ids.add(row.id)
        training_questions.add(row.questions[0].text)
    for row in evaluation:
        if row.id in training_ids or row.questions[0].text in training_questions:
            raise UserError(
                f"the row '{row.id}' is in the training and the evaluation files; remove it from "
                "one"
            )


def load_rows(file_patterns: Mapping[str, str], folder: Path, *, training: bool) -> list[RealRow]:
    """Load the usable rows of all sources, in the order of sources, files and rows.

    Args:
        file_patterns: Preset of a data set -> pattern of its files' names.
        folder: The folder that is searched, with its subfolders.
        training: Whether the files should be training splits; else none may be one.

    Raises:
        DataError: A row cannot be read.
        UserError: There are no such files, or a file's name says that it is of another split.
    """
    rows: list[RealRow] = []
    for dataset, pattern in file_patterns.items():
        for path in sorted(folder.rglob(pattern)):
            if training != is_training_name(path.name):
                a_or_no = "no"
                if training:
                    a_or_no = "a"
                raise UserError(
                    f"'{path.name}' should be {a_or_no} training file by its name; correct the "
                    "pattern"
                )
            real_rows = _rows_of_file(dataset, path)
            if training:
                ids = [row.id for row in real_rows]
                refuse_evaluation(ids, dataset, path.name)
            rows += real_rows
    if not rows:
        raise UserError(
            f"'{folder}' has no rows (files named {', '.join(file_patterns.values())}); name their "
            "folder with --data"
        )
    return rows


def _rows_of_file(dataset: str, path: Path) -> list[RealRow]:
    """The usable rows of one file of a data set: those with one document and marked gold passages,
    or declared unanswerable."""
    config: DatasetConfig = resolve_dataset(Choices(dataset=dataset, data=str(path))).value
    task = Task(instruction=config.instruction, max_answer_tokens=config.max_answer_tokens)
    loaded = load(config)
    rows = []
    for example in loaded.examples:
        row = _real_row(dataset, task, example, loaded.documents)
        if row is not None:
            rows.append(row)
    return rows


def _real_row(
    dataset: str, task: Task, example: Example, documents: Mapping[str, Document]
) -> RealRow | None:
    """Convert a loaded question to a row: its document's passages, the question itself and single-hop
    ones, from MuSiQue's decomposition or 2WikiMultihopQA's relations, where the row has these.

    Args:
        dataset: The preset of the data set.
        task: How the question is to be answered.
        example: The loaded question with its gold answer.
        documents: Id -> document.

    Returns:
        None where the question has several documents, or no gold passage is marked.
    """
    if len(example.question.document_ids) > 1:
        return None
    document = documents[example.question.document_ids[0]]
    passages: list[str] = []
    for passage in document.passages:
        text = document.text[passage.start : passage.end]
        passages.append(text.strip())
    gold_passages = _gold_passages(document, example)
    answer = example.gold.answers[0]
    if not gold_passages and not answer.lower().startswith("unanswerable"):
        return None
    extra = example.gold.extra
    decomposition = extra.get("question_decomposition") or []
    questions = [
        RowQuestion(example.question.text, answer=answer, gold_passages=gold_passages),
        *_hop_questions(decomposition, len(passages)),
        *_relation_questions(extra.get("evidences") or [], passages),
    ]
    steps = tuple(_as_question(hop["question"]) for hop in decomposition)
    return RealRow(
        id=example.question.id,
        dataset=dataset,
        task=task,
        passages=tuple(passages),
        questions=tuple(questions),
        steps=steps,
    )


def _gold_passages(document: Document, example: Example) -> tuple[int, ...]:
    """The numbers of a document's passages that overlap one of the example's supporting texts."""
    numbers = []
    for number, passage in enumerate(document.passages):
        for support in example.gold.supporting:
            if support.start < passage.end and passage.start < support.end:
                numbers.append(number)
                break
    return tuple(numbers)


def _hop_questions(hops: Sequence[Any], n_passages: int) -> list[RowQuestion]:
    """The single-hop questions of a decomposition, with earlier answers in place of "#1".

        [{"question": "Where was #1 born?", ...}] after one with the answer "Ann" -> "Where was Ann
            born?"

    Args:
        hops: MuSiQue's dicts, with question, answer and paragraph_support_idx.
        n_passages: How many passages the row has; hops about others are left out.
    """
    answers = [str(hop["answer"]) for hop in hops]

    def earlier_answer(reference: re.Match[str]) -> str:
        """The answer that a reference "#1" stands for; the reference itself where there is none."""
        number = int(reference[1])
        if number > len(answers):
            return reference[0]
        return answers[number - 1]

    questions = []
    for hop in hops:
        text = _REFERENCE.sub(earlier_answer, hop["question"])
        passage_number = hop["paragraph_support_idx"]
        if passage_number is not None and passage_number < n_passages:
            question = RowQuestion(
                _as_question(text),
                answer=str(hop["answer"]),
                gold_passages=(int(passage_number),),
            )
            questions.append(question)
    return questions


def _relation_questions(
    evidences: Sequence[tuple[str, str, str]], passages: Sequence[str]
) -> list[RowQuestion]:
    """A question for each (subject, relation, value) that one passage alone states, with that
    passage as its gold passage; relations without a form of question are left out.

        ("Rome", "founded by", "Romulus") -> RowQuestion("Who founded Rome?", "Romulus", (3,))

    Args:
        evidences: The relations, as 2WikiMultihopQA has them.
        passages: The texts of the row's passages.
    """
    questions = []
    for subject, relation, value in evidences:
        question_form = _RELATIONS.get(relation)
        stating_passages = [
            i for i, text in enumerate(passages) if subject in text and value in text
        ]
        if question_form is not None and len(stating_passages) == 1:
            question = RowQuestion(
                question_form.format(subject),
                answer=value,
                gold_passages=(stating_passages[0],),
            )
            questions.append(question)
    return questions


def _as_question(text: str) -> str:
    """Turn MuSiQue's form of a knowledge-base step into a question; leave other texts alone.

    "Green >> performer" -> "What is the performer of Green?"
    """
    subject, mark, relation = text.partition(" >> ")
    if not mark:
        return text
    return f"What is the {relation.strip()} of {subject.strip()}?"
