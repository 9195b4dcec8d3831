# ruff: noqa: N999 - a command is in a module of its name, which is imported by that name
"""`harness import FILE... --from TOOL`: results of other harnesses as run folders, which every other command reads."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import choice, setting
from harness.cli.options import RESULTS, Out, split_names
from harness.cli.output import columns, say
from harness.config import registry
from harness.errors import UnknownName, UserError, printable
from harness.exchange.foreign_tools import READERS, read_foreign
from harness.exchange.import_runs import Imported, prepare_import
from harness.storage.paths import local_folder
from harness.storage.run_schema import LOGGED

_SHOWN = 10
_TOLERANCE = 1e-9


def import_(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Logs or sample files; each becomes a run.")],
    tool: Annotated[str, choice("--from NAME", f"Who wrote them: {', '.join(READERS)}.")],
    dataset: Annotated[
        str | None,
        choice(
            "--dataset NAME",
            "Data set whose questions these are; answers are matched with its rows.",
            complete="datasets",
        ),
    ] = None,
    data: Annotated[str | None, choice("--data PATH", "Local file or folder to load its rows from.")] = None,
    scorers: Annotated[
        str | None, setting("--scorers NAME,...", "Scorers to compute here.", "the data set's, if it is known")
    ] = None,
    out: Out = RESULTS,
) -> int:
    """Turn results of other harnesses into run folders.

    Scores that the files hold become logged.NAME, beside those that are computed here. Costs that they do not tell
    stay unknown. Nothing is written unless every file can be used. The exit code is 3 if answers were left out because
    they match no question.
    """
    if tool not in READERS:
        raise UnknownName("tool", tool, READERS)
    names = tuple(split_names([scorers or ""]))
    registry.trust(*names)
    ready = [prepare_import(read_foreign(tool, Path(file)), dataset, data, names) for file in dict.fromkeys(files)]
    places = [one.place for one in ready]
    if twice := [place for place in places if places.count(place) > 1]:
        raise UserError(f"two of the files would become the same run {twice[0]}; leave one out")
    folder = local_folder(out)
    if there := [place for place in places if (folder / place).exists()]:
        raise UserError(f"{folder / there[0]} is there already; delete it to import the file again")
    for one in ready:
        _print_import(one, one.write(folder, say))
    return 3 if any(one.lost for one in ready) else 0


def _print_import(one: Imported, folder: Path) -> None:
    """Print the means of a run that was written, and on stderr what was left out."""
    print(printable(f"{folder}: {len(one.records)} questions, made elsewhere by {one.run.tool}"))
    print(columns(_mean_rows(one)) or "  no question was answered")
    for sentence in one.lost[:_SHOWN]:
        say(printable(f"left out: {sentence}"))
    if len(one.lost) > _SHOWN:
        say(f"left out: {len(one.lost) - _SHOWN} more (manifest.json lists all)")
    for warning in one.manifest["warnings"]:
        say(printable(f"note: {warning}"))


def _mean_rows(one: Imported) -> list[tuple[str, ...]]:
    """A row for each score: its name, mean ± standard error over the answers that have it, what the tool printed.

    Failed questions are left out, as the other tools do; the tables of this project count them 0.
    """
    import pandas as pd

    scores = pd.DataFrame([row["scores"] for row in one.records if row["error"] is None])
    rows: list[tuple[str, ...]] = []
    for name, *here in zip(map(str, scores), scores.mean(), scores.sem(), strict=True):
        told = one.run.told.get(name.removeprefix(LOGGED)) if name.startswith(LOGGED) else None
        pairs = [(there, own) for there, own in zip(told or (), here, strict=False) if there is not None]
        same = all(math.isclose(there, own, rel_tol=0, abs_tol=_TOLERANCE) for there, own in pairs)
        verdict = "as printed there" if same else f"printed there: {_plus_minus([there for there, _ in pairs])}"
        rows.append((f"  {name}", _plus_minus(here), verdict if pairs else ""))
    return rows


def _plus_minus(values: Sequence[float]) -> str:
    return " ± ".join(f"{value:.6g}" for value in values if not math.isnan(value))
