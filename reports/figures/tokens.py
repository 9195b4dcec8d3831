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
from typing import Any

import pandas as pd

from harness.config.schema import ModelConfig
from harness.config.yaml_tree import part_of_run
from harness.errors import CannotRun, UserError
from harness.llm.model_info import local_folder
from harness.llm.tokenizer_files import tokenizer_folder
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.figures.figure import Figure
from reports.gold_rows import offline, read_rows, with_data_at


def figure(runs: Sequence[StoredRun], *, data: str | None, warn: Callable[[str], None]) -> Figure:
    """The counts of the runs; those over the same rows with the same model count as one.

    data: where the rows of the one data set are now. Raises UserError where no rows or tokenizer
    can be loaded; what can be loaded for other runs is left out with a warning.
    """
    names = dict(zip(map(text_group, runs), facts.datasets(runs), strict=True))
    groups = {key: [run for run in runs if text_group(run) == key] for key in names}
    if data is not None and len({key[0] for key in groups}) > 1:
        raise UserError(
            "--data holds the rows of one data set, but the runs have several; name one run"
        )
    rows: list[dict[str, Any]] = []
    problems: list[UserError] = []
    for key, group in groups.items():
        try:
            rows += [{**row, "dataset": names[key]} for row in _token_rows(group, data)]
        except UserError as error:
            problems.append(error)
    if not rows:
        raise problems[0]
    for problem in problems:
        warn(f"warning: left out: {problem}")
    return Figure("Tokens", pd.DataFrame(rows))


def text_group(run: StoredRun) -> tuple[str, str | None, str]:
    """The key of runs with the same texts and tokens: data set, fingerprint of its rows, reader."""
    return facts.run_key(run)[0], facts.fingerprint(run), str(run.config["model"]["name"])


def _token_rows(runs: Sequence[StoredRun], data: str | None) -> list[dict[str, Any]]:
    """A row a kind of text over all that `runs` asked. Raises UserError for rows or a tokenizer not
    to be loaded."""
    first = with_data_at(runs[0], data)
    read = read_rows(first, whole=True)
    name, _, model = text_group(first)
    if read.problem is not None:
        raise UserError(f"{read.problem}; name the file of the rows with --data")
    question_ids = list(
        dict.fromkeys(record["question_id"] for run in runs for record in run.records)
    )
    n_asked, n_all = len(question_ids), len(read.examples)
    note = f"of the {n_all} questions of {name}, {n_asked} were asked and are counted"
    if missing := [question for question in question_ids if question not in read.examples]:
        raise UserError(f"question '{missing[0]}' of {first.path} is not in the data set any more")
    examples = [read.examples[question] for question in question_ids]
    documents = dict.fromkeys(
        d for example in examples for d in example.question.document_ids
    )  # each once
    texts = {
        "document": [read.documents[d].text for d in documents],
        "question": [example.question.text for example in examples],
        "answer": [answer for example in examples for answer in example.gold.answers],
    }
    tokens = functools.cache(token_counter(first))
    lengths = {kind: [tokens(text) for text in of_kind] for kind, of_kind in texts.items()}
    return [
        {
            "dataset": name,
            "tokenizer": model,
            "kind": kind,
            "n": len(counts),
            "tokens.min": min(counts, default=None),
            "tokens.mean": sum(counts) / len(counts) if counts else None,
            "tokens.max": max(counts, default=None),
            "notes": (note,) if n_asked < n_all else (),
        }
        for kind, counts in lengths.items()
    ]


def token_counter(run: StoredRun) -> Callable[[str], int]:
    """What counts the tokens of a text as the run's reader does.

    Raises UserError where its tokenizer is not known, CannotRun where the files of it cannot be
    read.
    """
    if facts.made_elsewhere(run):
        raise UserError(f"{run.path} was imported, so the tokenizer of its model is not known")
    config = part_of_run(ModelConfig, run.config["model"], str(run.path))
    if config.backend == "scripted":
        from harness.llm.scripted import Scripted

        return Scripted().load(config).count
    from transformers import AutoTokenizer

    from harness.llm.text import Text

    with offline():
        folder = tokenizer_folder(config, local_folder(config)[0])
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=config.trust_remote_code
        )
    except (OSError, ValueError) as e:
        raise CannotRun(
            f"the tokenizer of '{config.name}' cannot be read: {str(e).splitlines()[0]}"
        ) from e
    return Text(tokenizer, config.name).count
