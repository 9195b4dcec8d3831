"""`harness score RUN...`: judge stored predictions again. No model is loaded; the data set is, for its gold answers."""

from __future__ import annotations

import json as json_
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.common import mean_texts, run_folders, split
from harness.config import registry
from harness.errors import ConfigError, UserError, printable
from harness.storage.paths import expanded

if TYPE_CHECKING:
    from harness.config.schema import RunConfig
    from harness.datasets.base import Dataset
    from harness.storage.run_folder import StoredRun


def main(runs: list[str], *, scorers: str | None, data: str | None, json: bool, trust: bool = False) -> int:
    """Score each run again and print its new means. Raises UserError, DataError, RunLocked or SaveError.

    trust: list the code that the run folders name and ask whether to import it.
    """
    folders = run_folders(runs)
    registry.trust(*(split([scorers]) if scorers else ()))
    if trust:
        _ask(folders)
    for folder in folders:
        summary = rescore(folder, scorers=split([scorers]) if scorers else None, data=data)
        if json:
            print(json_.dumps({"run": str(folder), "summary": summary}))
        else:
            means = ", ".join(f"{name} {text}" for name, text in mean_texts(summary).items())
            print(f"{folder}: {means or 'no questions yet'}")
    return 0


def _ask(folders: list[Path]) -> None:
    """Trust the code that the run folders name once the user has agreed to it. Raises UserError for a no."""
    import typer

    from harness.storage.run_folder import read_run

    for folder in folders:
        for target, key in registry.code_named(read_run(folder).config.get("dataset")).items():
            if registry.trusted(target):
                continue
            sys.stderr.write(f"{printable(str(folder))}: dataset.{key} is the function {printable(target)}\n")
            try:
                agreed = typer.confirm("Import its module, which executes it?", default=False, err=True)
            except typer.Abort:
                agreed = False
            if not agreed:
                raise UserError(f"{printable(target)} was not imported, so nothing was scored")
            registry.trust(target)


def rescore(folder: Path, *, scorers: list[str] | None = None, data: str | None = None) -> dict[str, Any]:
    """Replace the scores in a run folder and return its new summary.

    scorers: instead of the run's own; data: where the rows are now. An answer that a scorer had failed on is scored
    too, and no failed question any more. Raises UserError when the rows are not those the run was made with, and what a
    scorer raises; the folder is then as it was.
    """
    from harness.datasets import load
    from harness.scorers import problems
    from harness.storage.run_folder import read_run

    stored = read_run(folder)
    config = _config(stored, scorers, data)
    named = registry.code_named(config.dataset.model_dump())
    if foreign := [target for target in named if not registry.trusted(target)]:
        raise UserError(
            f"{folder}: dataset.{named[foreign[0]]} names code ('{foreign[0]}') that neither the command line nor a "
            f"preset in the folder {registry.ENV} names; to see it and decide, use: harness score --trust {folder}"
        )
    if wrong := problems(config.dataset.scorers):
        raise ConfigError(wrong)
    dataset = load(config.dataset, None)
    _same_rows(stored, dataset)
    return _write(stored, config, dataset)


def _config(stored: StoredRun, scorers: list[str] | None, data: str | None) -> RunConfig:
    from pydantic import ValidationError

    from harness.config.schema import RunConfig
    from harness.config.validation import explain

    try:
        config = RunConfig.model_validate(stored.config)
    except ValidationError as e:
        problems = explain(e, RunConfig, "", {})
        raise ConfigError([f"{stored.path}/run.yaml: {p}" for p in problems]) from e
    update: dict[str, Any] = {}
    if scorers is not None:
        update["scorers"] = tuple(scorers)
    if data is not None:
        update["data"] = expanded(data)
    return config.model_copy(update={"dataset": config.dataset.model_copy(update=update)})


def _same_rows(stored: StoredRun, dataset: Dataset) -> None:
    """Gold answers of other rows would score other questions."""
    before = stored.manifest.get("dataset", {}).get("fingerprint")
    if before is None:
        raise UserError(f"{stored.path} has no manifest that says which rows it was made with; run it again")
    if before != dataset.fingerprint:
        raise UserError(
            f"the rows of '{dataset.name}' are not those that {stored.path} was made with ({before[:12]} then, "
            f"{dataset.fingerprint[:12]} now); name the right file with --data"
        )


def _write(stored: StoredRun, config: RunConfig, dataset: Dataset) -> dict[str, Any]:
    """Judge every record, then put all that changes on disk: where one cannot be judged, the run stays as it was."""
    from harness import scorers
    from harness.engine.rescore import rejudge
    from harness.storage.run_folder import MANIFEST, SUMMARY, RunStore
    from harness.storage.summary import summarise

    def note(text: str) -> None:
        sys.stderr.write(text + "\n")

    gold = {example.question.id: example.gold for example in dataset.examples}
    with RunStore.open(stored.path, dataset.fingerprint, note) as store:
        latest = {row["question_id"]: row for row in store.records()}
        rows = rejudge(latest.values(), config.dataset, gold)
        versions = {name: scorers.version(name) for name in config.dataset.scorers}
        numbers = summarise(rows, store.documents(), failed=config.failed, seed=config.seed, form=config.dataset.format)
        summary = {**{k: v for k, v in stored.summary.items() if k in ("state", "n_asked")}, **numbers}
        store.replace(rows)
        store.write(MANIFEST, {**store.manifest(), "scorers": versions})
        store.describe(config.model_dump(mode="json"), stored.origins)
        store.write(SUMMARY, summary)
    return summary
