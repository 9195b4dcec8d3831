"""Training rows of real data sets: questions with the passages that answer them, and the passages beside them.

    rows = training_rows([Source("hotpotqa", "hotpot*train*"), ...], folder)
    rows[0].asked[0]           the row's question: text, answer, numbers of the passages that it needs
    rows[0].asked[1:]          its single steps, where the data set names them (MuSiQue, 2WikiMultihopQA)

Only files whose name says that they are of a training split are read: a row that is evaluated on is never trained on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.config.schema import DatasetConfig
from harness.datasets.loading import load
from harness.errors import UserError
from harness.method import Task
from harness.types import Document, Example

_TRAINING = re.compile(r"train", re.IGNORECASE)
_OTHER_SPLITS = re.compile(r"dev|test|valid|eval", re.IGNORECASE)
_REFERENCE = re.compile(r"#(\d+)")
# How a relation of 2WikiMultihopQA's evidence is asked for; "{}" is its subject. Those that are not here are left out.
_RELATIONS = {
    "director": "Who directed {}?",
    "performer": "Who performed {}?",
    "composer": "Who composed {}?",
    "founded by": "Who founded {}?",
    "father": "Who is the father of {}?",
    "mother": "Who is the mother of {}?",
    "spouse": "Who is the spouse of {}?",
    "child": "Who is a child of {}?",
    "sibling": "Who is a sibling of {}?",
    "date of birth": "When was {} born?",
    "date of death": "When did {} die?",
    "place of birth": "Where was {} born?",
    "place of death": "Where did {} die?",
    "place of burial": "Where is {} buried?",
    "cause of death": "What did {} die of?",
    "country of citizenship": "Of which country is {} a citizen?",
    "country of origin": "From which country does {} come?",
    "country": "In which country is {}?",
    "publication date": "When was {} published?",
    "inception": "When was {} founded?",
    "educated at": "Where was {} educated?",
    "employer": "Who employed {}?",
    "award received": "Which award did {} receive?",
    "publisher": "Who published {}?",
    "occupation": "What is the occupation of {}?",
}


@dataclass(frozen=True)
class Source:
    """A data set's preset, and the pattern of its training files' names."""

    dataset: str
    files: str


@dataclass(frozen=True)
class Asked:
    """A question; needs: numbers of the passages that answer it together, () where none does."""

    text: str
    answer: str
    needs: tuple[int, ...]


@dataclass(frozen=True)
class RealRow:
    """asked: the row's own question first; steps: of the question as the data set writes them, "#1" for an answer."""

    id: str
    dataset: str
    task: Task
    passages: tuple[str, ...]
    asked: tuple[Asked, ...]
    steps: tuple[str, ...] = ()


def training_rows(sources: Sequence[Source], folder: Path) -> list[RealRow]:
    """The usable rows of all sources in `folder` or below it, in the order of sources, files and rows.

    Raises UserError where the folder has none of the files, or one that is of another split; DataError for bad rows.
    """
    return _all(sources, folder, training=True)


def other_rows(sources: Sequence[Source], folder: Path) -> list[RealRow]:
    """Rows to measure on, likewise; a file that is named as a training split is refused."""
    return _all(sources, folder, training=False)


def check_apart(training: Sequence[RealRow], others: Sequence[RealRow]) -> None:
    """Raise UserError where a row is in both, by its id or by its question."""
    ids, questions = ({row.id for row in training}, {row.asked[0].text for row in training})
    for row in others:
        if row.id in ids or row.asked[0].text in questions:
            raise UserError(f"the row '{row.id}' is trained on and measured on; take it out of one of the files")


def _all(sources: Sequence[Source], folder: Path, training: bool) -> list[RealRow]:
    found: list[RealRow] = []
    for source in sources:
        for path in sorted(folder.rglob(source.files)):
            if training != (bool(_TRAINING.search(path.name)) and not _OTHER_SPLITS.search(path.name)):
                kind = "a" if training else "no"
                raise UserError(f"'{path.name}' should be {kind} training file by its name; correct the pattern")
            found += _rows(source.dataset, path)
    if not found:
        wanted = ", ".join(source.files for source in sources)
        raise UserError(f"'{folder}' has no rows (files named {wanted}); name their folder with --data")
    return found


def _rows(dataset: str, path: Path) -> list[RealRow]:
    from harness.config.layers import Choices
    from harness.config.resolve import resolve_part

    config: DatasetConfig = resolve_part("datasets", Choices(dataset=dataset, data=str(path))).parts["dataset"]
    task = Task(instruction=config.instruction, max_answer_tokens=config.max_answer_tokens)
    loaded = load(config)
    rows = (
        _row(dataset, task, one, [loaded.documents[i] for i in one.question.document_ids]) for one in loaded.examples
    )
    return [row for row in rows if row is not None]


def _row(dataset: str, task: Task, example: Example, documents: Sequence[Document]) -> RealRow | None:
    """None where the supporting parts are not known and the answer needs some."""
    (document, *others) = documents
    if others:
        return None
    passages = tuple(document.text[p.start : p.end].strip() for p in document.passages)
    needs = tuple(
        number
        for number, p in enumerate(document.passages)
        if any(s.start < p.end and p.start < s.end for s in example.gold.supporting)
    )
    answer = example.gold.answers[0]
    if not needs and not answer.lower().startswith("unanswerable"):
        return None
    own = Asked(example.question.text, answer, needs)
    steps, written = _hops(example, passages)
    return RealRow(example.question.id, dataset, task, passages, (own, *steps), tuple(written))


def _hops(example: Example, passages: Sequence[str]) -> tuple[list[Asked], list[str]]:
    """Single steps with their answers and passages, and the steps as they are written; [] where there are none."""
    extra = example.gold.extra
    hops = extra.get("question_decomposition") or []
    answers = [str(hop["answer"]) for hop in hops]
    steps = []
    for hop in hops:
        text = _REFERENCE.sub(lambda m: answers[int(m[1]) - 1] if int(m[1]) <= len(answers) else m[0], hop["question"])
        place = hop["paragraph_support_idx"]
        if place is not None and place < len(passages):
            steps.append(Asked(_question(text), str(hop["answer"]), (int(place),)))
    for subject, relation, value in extra.get("evidences") or []:
        form = _RELATIONS.get(relation)
        places = [i for i, text in enumerate(passages) if subject in text and value in text]
        if form is not None and len(places) == 1:
            steps.append(Asked(form.format(subject), value, (places[0],)))
    return steps, [_question(hop["question"]) for hop in hops]


def _question(text: str) -> str:
    """ "Green >> performer" as a question: MuSiQue writes steps that come from a knowledge base so."""
    subject, mark, relation = text.partition(" >> ")
    return f"What is the {relation.strip()} of {subject.strip()}?" if mark else text
