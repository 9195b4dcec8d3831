"""Tokens of documents, questions and answers by data set: least, mean and most (GARLIC table 6, PECAN table A3).

    count(Texts(...), tokens)                  {"document": [318, 402], "question": [14, 17], "answer": [2, 3, 2]}
    frame([Counted("musique", ...)])           one row a data set, tokenizer and kind

A run folder keeps no texts, and `documents.jsonl` only what building an index cost, so the texts are read from the data
set again and counted with the tokenizer of the run's reader; no model is loaded. Only what the run asked is counted:
its questions, the documents they were asked about, each once, and every gold answer of each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from harness.config.schema import ModelConfig
from harness.config.validation import part_of_run
from harness.errors import CannotRun, UserError
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.figures.figure import Figure
from reports.gold_rows import Rows, offline, read_rows, with_data_at

KINDS = ("document", "question", "answer")


@dataclass(frozen=True)
class Texts:
    """The texts of one data set that were asked, each document and question once."""

    documents: Sequence[str]
    questions: Sequence[str]
    answers: Sequence[str]


@dataclass(frozen=True)
class Counted:
    """Token counts of one data set; tokenizer: whose tokens; notes: what a reader must know."""

    dataset: str
    tokenizer: str
    numbers: dict[str, list[int]]
    notes: tuple[str, ...] = ()


def figure(runs: Sequence[StoredRun], *, data: str | None, warn: Callable[[str], None]) -> Figure:
    """The counts of the runs; those over the same rows with the same model count as one.

    data: where the rows of the one data set are now. Raises UserError where no rows or tokenizer can be loaded; what
    can be loaded for other runs is left out with a warning.
    """
    groups: dict[tuple[str, str | None, str], list[StoredRun]] = {}
    for run in runs:
        groups.setdefault(_key(run), []).append(run)
    if data is not None and len({key[0] for key in groups}) > 1:
        raise UserError("--data holds the rows of one data set, but the runs have several; name one run")
    counted: list[Counted] = []
    problems: list[UserError] = []
    for group in groups.values():
        try:
            counted.append(_count_runs(group, data))
        except UserError as error:
            problems.append(error)
    if not counted:
        raise problems[0]
    for problem in problems:
        warn(f"warning: left out: {problem}")
    return Figure("Tokens", frame(counted))


def _key(run: StoredRun) -> tuple[str, str | None, str]:
    return facts.key(run)[0], facts.fingerprint(run), str(run.config["model"]["name"])


def _count_runs(runs: Sequence[StoredRun], data: str | None) -> Counted:
    """The counts over everything that `runs` asked. Raises UserError for rows or a tokenizer that cannot be loaded."""
    first = with_data_at(runs[0], data)
    rows = read_rows(first, whole=True)
    name, _, model = _key(first)
    if rows.problem is not None:
        raise UserError(f"{rows.problem}; name the file of the rows with --data")
    question_ids = list(dict.fromkeys(record["question_id"] for run in runs for record in run.records))
    notes = []
    if len(question_ids) < len(rows.examples):
        notes.append(f"of the {len(rows.examples)} questions of {name}, {len(question_ids)} were asked and are counted")
    return Counted(name, model, count(_asked_texts(rows, question_ids, first), token_counter(first)), tuple(notes))


def _asked_texts(rows: Rows, question_ids: list[str], run: StoredRun) -> Texts:
    """Documents, questions and gold answers of `question_ids`, each document once. Raises UserError."""
    missing = [question for question in question_ids if question not in rows.examples]
    if missing:
        raise UserError(f"question '{missing[0]}' of {run.path} is not in the data set any more")
    examples = [rows.examples[question] for question in question_ids]
    documents = dict.fromkeys(d for example in examples for d in example.question.document_ids)
    return Texts(
        [rows.documents[d].text for d in documents],
        [example.question.text for example in examples],
        [answer for example in examples for answer in example.gold.answers],
    )


def token_counter(run: StoredRun) -> Callable[[str], int]:
    """What counts the tokens of a plain text as the run's reader does. Raises UserError."""
    if facts.elsewhere(run):
        raise UserError(f"{run.path} was made elsewhere, so the tokenizer of its model is not known")
    config = part_of_run(ModelConfig, run.config["model"], str(run.path))
    if config.backend == "scripted":
        from harness.llm.scripted import ScriptedModel

        return ScriptedModel.from_config(config).count
    return _token_counter_of(config)


def _token_counter_of(config: ModelConfig) -> Callable[[str], int]:
    """The tokenizer that a run with this model has; the embedded model's without transformers."""
    from harness.llm.model_info import local_folder
    from harness.llm.text import Text
    from harness.llm.tokenizer_files import place

    with offline():
        folder = place(config, local_folder(config)[0])
    if config.package and not config.tokenizer:
        from harness.llm.fast_tokenizer import FastTokenizer

        text = Text(FastTokenizer(folder), config.name)
    else:
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=config.trust_remote_code)
        except (OSError, ValueError) as e:
            raise CannotRun(f"the tokenizer of '{config.name}' cannot be read: {str(e).splitlines()[0]}") from e
        text = Text(tokenizer, config.name)
    return text.count


def count(texts: Texts, tokens: Callable[[str], int]) -> dict[str, list[int]]:
    """The number of tokens of every text, by kind; `tokens` is asked once for each different text."""
    ask = functools.cache(tokens)
    found = zip(KINDS, (texts.documents, texts.questions, texts.answers), strict=True)
    return {kind: [ask(text) for text in of_kind] for kind, of_kind in found}


def frame(found: Sequence[Counted]) -> pd.DataFrame:
    """dataset tokenizer kind n tokens.min tokens.mean tokens.max notes; a kind without any text has n = 0."""
    return pd.DataFrame(
        [
            {
                "dataset": one.dataset,
                "tokenizer": one.tokenizer,
                "kind": kind,
                "n": len(lengths),
                "tokens.min": min(lengths, default=None),
                "tokens.mean": sum(lengths) / len(lengths) if lengths else None,
                "tokens.max": max(lengths, default=None),
                "notes": one.notes,
            }
            for one in found
            for kind, lengths in one.numbers.items()
        ]
    )
