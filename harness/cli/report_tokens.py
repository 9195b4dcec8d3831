"""`harness report tokens`: how long the documents, questions and answers of each data set are, in tokens.

Only a tokenizer is loaded, that of the model which the run read with; the texts come from the data set.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.cli.figures import Figure, form_of, sections_of, show
from harness.cli.options import FigureOutput, MovedData, RunsFolders
from harness.cli.stored_runs import figure_runs, moved
from harness.errors import CannotRun, UserError

if TYPE_CHECKING:
    from harness.config.schema import ModelConfig
    from harness.storage.run_folder import StoredRun
    from reports.figures.tokens import Counted, Texts
    from reports.gold_rows import Rows


def report_tokens(figure: FigureOutput, folders: RunsFolders = None, data: MovedData = None) -> int:
    """Count the tokens of documents, questions and answers of each data set.

    Runs over the same rows with the same model count as one. Only the model's tokenizer is loaded.
    """
    form = form_of(figure.form, figure.out, drawn=False)
    runs, damaged = figure_runs(folders, "tokens")
    from reports.figures.tokens import frame

    groups: dict[tuple[str, str | None, str], list[StoredRun]] = {}
    for run in runs:
        groups.setdefault(_key(run), []).append(run)
    if data is not None and len({key[0] for key in groups}) > 1:
        raise UserError("--data holds the rows of one data set, but the runs have several; name one run")
    counted: list[Counted] = []
    problems: list[UserError] = []
    for group in groups.values():
        try:
            counted.append(_counted(group, data))
        except UserError as error:
            problems.append(error)
    if not counted:
        raise problems[0]
    for problem in problems:
        sys.stderr.write(f"warning: left out: {problem}\n")
    table = frame(counted)
    show(Figure("Tokens", table, sections_of(table)), form, figure.out)
    return 3 if damaged else 0


def _key(run: StoredRun) -> tuple[str, str | None, str]:
    from reports import stored as facts

    return facts.key(run)[0], facts.fingerprint(run), str(run.config["model"]["name"])


def _counted(runs: list[StoredRun], data: str | None) -> Counted:
    """The counts over everything that `runs` asked. Raises UserError for rows or a tokenizer that cannot be loaded."""
    from reports.figures.tokens import Counted, count
    from reports.gold_rows import read_rows

    first = moved(runs[0], data)
    rows = read_rows(first, whole=True)
    name, _, model = _key(first)
    if rows.problem is not None:
        raise UserError(f"{rows.problem}; name the file of the rows with --data")
    question_ids = list(dict.fromkeys(record["question_id"] for run in runs for record in run.records))
    notes = []
    if len(question_ids) < len(rows.examples):
        notes.append(f"of the {len(rows.examples)} questions of {name}, {len(question_ids)} were asked and are counted")
    return Counted(name, model, count(_texts(rows, question_ids, first), tokens_by(first)), tuple(notes))


def _texts(rows: Rows, question_ids: list[str], run: StoredRun) -> Texts:
    from reports.figures.tokens import Texts

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


def tokens_by(run: StoredRun) -> Callable[[str], int]:
    """What counts the tokens of a plain text as the run's reader does. Raises UserError."""
    from harness.config.schema import ModelConfig
    from harness.config.validation import part_of_run

    config = part_of_run(ModelConfig, run.config["model"], str(run.path))
    if config.backend == "scripted":
        from harness.llm.scripted import ScriptedModel

        return ScriptedModel.from_config(config).count
    return _tokenizer(config)


def _tokenizer(config: ModelConfig) -> Callable[[str], int]:
    """The tokenizer that a run with this model has; the embedded model's without transformers."""
    from harness.llm.model_info import local_folder
    from harness.llm.text import Text
    from harness.llm.tokenizer_files import place
    from reports.gold_rows import offline

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
