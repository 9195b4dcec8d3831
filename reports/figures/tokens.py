"""Tokens of documents, questions and answers by data set: least, mean and most (GARLIC table 6,
PECAN table A3).

dataset tokenizer kind n tokens.min tokens.mean tokens.max notes      kind: document, question, answer

A run folder keeps no texts, and `documents.jsonl` only what building an index cost, so the texts
are read from the data set again and counted with the tokenizer of the run's reader; no model is
loaded. Only what the run asked is counted: its questions, the documents they were asked about, each
once, and every gold answer of each.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from harness.config.schema import ModelConfig
from harness.config.yaml_tree import part_of_run
from harness.errors import CannotRun, UserError
from harness.llm.model_info import find_or_download
from harness.llm.scripted import Scripted
from harness.llm.text import Text
from harness.llm.tokenizer_files import tokenizer_folder
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.figures.figure import Figure
from reports.gold_rows import QuestionRows, offline, read_rows, with_data_path
from reports.table_cell import Row


def figure(runs: Sequence[StoredRun], *, data: str | None, warn: Callable[[str], None]) -> Figure:
    """The numbers of tokens of documents, questions and answers, a row a data set and kind of text.

    Runs over the same rows with the same model are counted together.

    Args:
        runs: Stored runs.
        data: The file of the rows of the one data set; None for the place that each run names.
        warn: Gets a sentence for each data set and model that is left out, as its rows or tokenizer
            cannot be loaded.

    Raises:
        UserError: No rows or tokenizer can be loaded, or `data` is given for several data sets.
    """
    groups: dict[TextGroup, list[StoredRun]] = {}
    for run in runs:
        groups.setdefault(text_group(run), []).append(run)
    if data is not None and len({group.dataset for group in groups}) > 1:
        raise UserError(
            "--data holds the rows of one data set, but the runs have several; name one run"
        )
    # Data set names, with a hash where two data sets of one name have other rows.
    names: dict[TextGroup, str] = {}
    for run, name in zip(runs, facts.dataset_names_with_rows(runs), strict=True):
        names[text_group(run)] = name
    rows: list[Row] = []
    problems: list[UserError] = []
    for group, members in groups.items():
        try:
            counts = _text_counts(members, data)
        except UserError as error:
            problems.append(error)
            continue
        rows += [count.columns(names[group], group.model) for count in counts]
    if not rows:
        raise problems[0]
    for problem in problems:
        warn(f"warning: left out: {problem}")
    return Figure("Tokens", pd.DataFrame(rows))


@dataclass(frozen=True)
class TextGroup:
    """What runs with the same texts and tokens have in common."""

    dataset: str
    fingerprint: str | None
    model: str


def text_group(run: StoredRun) -> TextGroup:
    """What the run has in common with others of the same texts and tokens."""
    model = facts.model_name(run)
    return TextGroup(run.config.dataset.name, facts.rows_fingerprint(run), model)


@dataclass(frozen=True)
class TextCounts:
    """Tokens of the texts of one kind.

    Args:
        kind: "document", "question" or "answer".
        counts: The number of tokens of each text.
        notes: Sentences to print below the table.
    """

    kind: str
    counts: Sequence[int]
    notes: tuple[str, ...]

    def columns(self, dataset: str, tokenizer: str) -> Row:
        """The counts as a row of a table: least, mean and most tokens, None without any text.

        Args:
            dataset: The name of the data set.
            tokenizer: The name of the model whose tokenizer counted.
        """
        mean = None
        if self.counts:
            mean = sum(self.counts) / len(self.counts)
        return {
            "dataset": dataset,
            "tokenizer": tokenizer,
            "kind": self.kind,
            "n": len(self.counts),
            "tokens.min": min(self.counts, default=None),
            "tokens.mean": mean,
            "tokens.max": max(self.counts, default=None),
            "notes": self.notes,
        }


def _text_counts(runs: Sequence[StoredRun], data: str | None) -> list[TextCounts]:
    """The tokens of each kind of text over all questions of runs of one group.

    Args:
        runs: Runs of one group.
        data: The file of their rows; None for the place that the first run names.

    Raises:
        UserError: The rows or the tokenizer cannot be loaded, or a question is not in the rows.
    """
    first_run = with_data_path(runs[0], data)
    rows = read_rows(first_run, with_documents=True)
    if rows.problem is not None:
        raise UserError(f"{rows.problem}; name the file of the rows with --data")
    question_ids = _question_ids(runs)
    for question_id in question_ids:
        if question_id not in rows.examples:
            raise UserError(
                f"question '{question_id}' of {first_run.path} is not in the data set any more"
            )
    n_asked = len(question_ids)
    n_all = len(rows.examples)
    notes: tuple[str, ...] = ()
    if n_asked < n_all:
        name = first_run.config.dataset.name
        notes = (f"of the {n_all} questions of {name}, {n_asked} were asked and are counted",)
    count_tokens = functools.cache(token_counter(first_run))  # texts may be equal
    counts = []
    for kind, texts in _texts_by_kind(rows, question_ids).items():
        counts.append(TextCounts(kind, [count_tokens(text) for text in texts], notes))
    return counts


def _question_ids(runs: Sequence[StoredRun]) -> list[str]:
    """The ids of the questions of the runs, each once."""
    found: dict[str, None] = {}  # an ordered set
    for run in runs:
        for record in run.records:
            found[record.question_id] = None
    return list(found)


def _texts_by_kind(rows: QuestionRows, question_ids: Sequence[str]) -> dict[str, list[str]]:
    """Kind -> texts: {"document": [...], "question": [...], "answer": [...]}.

    A document that several questions are about is there once.
    """
    documents: dict[str, None] = {}  # an ordered set
    questions: list[str] = []
    answers: list[str] = []
    for question_id in question_ids:
        example = rows.examples[question_id]
        documents.update(dict.fromkeys(example.question.document_ids))
        questions.append(example.question.text)
        answers += example.gold.answers
    texts = [rows.documents[document_id].text for document_id in documents]
    return {"document": texts, "question": questions, "answer": answers}


def token_counter(run: StoredRun) -> Callable[[str], int]:
    """The function that counts the tokens of a text as the run's reader does.

    Raises:
        UserError: The run's tokenizer is not known.
        CannotRun: The files of the tokenizer cannot be read.
    """
    if facts.is_imported(run):
        raise UserError(f"{run.path} was imported, so the tokenizer of its model is not known")
    config = part_of_run(ModelConfig, run.config.model.to_json(), str(run.path))
    if config.backend == "scripted":
        return Scripted().load(config).count
    from transformers import AutoTokenizer

    with offline():
        folder = tokenizer_folder(config, find_or_download(config).folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=config.trust_remote_code
        )
    except (OSError, ValueError) as e:
        raise CannotRun(
            f"the tokenizer of '{config.name}' cannot be read: {str(e).splitlines()[0]}"
        ) from e
    return Text(tokenizer, config.name).count
