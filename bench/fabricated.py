"""Edited run folders, judged by the commands: python -m bench.fabricated [--careful] [--only NAME]

Honest runs of the embedded model are made once. For each edit of bench/fabrications*.py, a copy of
one (mostly BM25's) is edited on disk, and `harness compare`, `report`, `export` and `verify` are called on
it beside honest runs of other methods. --careful: the checksums in summary.json are computed anew
after the edit, as a forger who has read the code would.

Printed for each command: how many edits it refuses, names by content, or only names as not checked
(the last line of compare and report, the verdict of verify), and the edits on which it is silent, or
that verify certifies; then honest pairs that are refused or marked without cause. Silent, certified
and hurt should be none.
"""

import argparse
import contextlib
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args

from bench.commands import Said, call
from bench.fabrications import EDITS, Edit, Folder
from bench.fabrications_eighth import EIGHTH_EDITS, THIRD_OF_INDEX
from bench.fabrications_fifth import FIFTH_EDITS
from bench.fabrications_fourth import FOURTH_EDITS
from bench.fabrications_read import HONEST, READ_EDITS, Honest
from bench.fabrications_seventh import SEVENTH_EDITS, UNPAID_PROBES
from bench.fabrications_sixth import SEARCH_EDITS, SIXTH_EDITS
from bench.fabrications_third import THIRD_EDITS

METHODS = ("bm25", "full-context", "sbert", "closed-book")
QUESTIONS = 6
SEARCHES = "--method pecan --limit 2 --set dataset.tokens=300 --profile pocket --record-stops 2"
BESIDE_SEARCHES = "--method full-context --limit 2 --set dataset.tokens=300 --profile pocket"
ALL_EDITS = (
    *EDITS,
    *READ_EDITS,
    *THIRD_EDITS,
    *FOURTH_EDITS,
    *FIFTH_EDITS,
    *SIXTH_EDITS,
    *SEVENTH_EDITS,
    *EIGHTH_EDITS,
)
Verdict = Literal["refused", "named", "only named as not checked", "silent"]
_DIFFERS = 4  # the exit code of verify
_COMMANDS = ("compare", "report", "verify")


@dataclass
class Found:
    """What the commands say of edits and of honest pairs, by name.

    Args:
        verdicts: Command -> edit -> what it says of it.
        hurt: Honest pairs that are refused or marked.
    """

    verdicts: dict[str, dict[str, Verdict]] = field(
        default_factory=lambda: {command: {} for command in _COMMANDS}
    )
    hurt: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For each command the number of edits by verdict, and the names of those that it passes
        or only names as not checked."""
        lines = []
        for command, verdicts in self.verdicts.items():
            counts = Counter(verdicts.values())
            lines.append(
                f"{command}: " + ", ".join(f"{counts[one]} {one}" for one in get_args(Verdict))
            )
            for verdict in ("silent", "only named as not checked"):
                names = [name for name, said in verdicts.items() if said == verdict]
                lines += [f"  {verdict}: {name}" for name in names]
        return lines


def make_runs(root: Path, *commands: str) -> dict[str, Path]:
    """Make runs on the made-up data; returns method -> run folder. Ends the program where one
    fails.

    Args:
        root: The folder of results.
        *commands: The options of each `harness run`.
    """
    for command in commands:
        options = [*command.split(), "--dataset", "pocket/musique", "--mlflow", "off"]
        said = call("run", *options, "--out", str(root))
        if said.code:
            raise SystemExit(said.text)
    return {path.parent.name.partition("--")[0]: path.parent for path in root.rglob("run.yaml")}


@contextlib.contextmanager
def copies(runs: dict[str, Path]) -> Iterator[dict[str, Path]]:
    """A context manager that gives method -> a copy of its run, in a temporary folder that is there
    as long as the `with` block."""
    with TemporaryDirectory() as folder:
        made = {}
        for name, path in runs.items():
            made[name] = Path(folder, path.parent.name, path.name)
            shutil.copytree(path, made[name])
        yield made


def judged(here: dict[str, Path], of: str = "bm25") -> tuple[Said, Said, Said]:
    """What `harness compare`, `report` and `verify` say of a run beside the others.

    Where the run cannot be exported as a bundle, what `harness export` says stands for `verify`.

    Args:
        here: Method -> run folder.
        of: The method whose run is judged.
    """
    folder_of_runs = str(here[of].parent.parent)
    compared = call("compare", str(here[of]), str(here["full-context"]))
    reported = call("report", folder_of_runs)
    bundle = str(Path(folder_of_runs, "b.zip"))
    exported = call("export", str(here[of]), bundle)
    verified = exported
    if exported.code == 0:
        verified = call("verify", bundle)
    return compared, reported, verified


def is_silent(said: Said, honest: Said) -> bool:
    """Whether a command says nothing of an edited run that it does not say of an honest one.

    Args:
        said: What it says of the edited run.
        honest: What it says of the honest one.
    """
    return said.code == 0 and not said.marks - honest.marks


def is_certified(said: Said, edit: Edit) -> bool:
    """Whether verify calls a bundle consistent, without naming what was edited as not checked.

    Args:
        said: What it says; its last line may end with "not checked: ...".
        edit: The edit; an empty topic stands in no such list.
    """
    return verdict_of_verify(said, edit) == "silent"


def verdict_of_verify(said: Said, edit: Edit) -> Verdict:
    """What verify says of an edit: "refused" for an export that is refused, "named" where it is not
    consistent, "silent" where it is certified.

    Args:
        said: What it says.
        edit: The edit.
    """
    if said.code == _DIFFERS:
        return "named"
    if said.code != 0:
        return "refused"
    last_line = said.text.rstrip().rpartition("\n")[2]
    _, _, not_checked = last_line.partition("not checked: ")
    if edit.topic and edit.topic in not_checked:
        return "only named as not checked"
    return "silent"


def verdict_of_table(said: Said, honest: Said, edit: Edit) -> Verdict:
    """What compare or report says of an edit.

    Args:
        said: What it says of the edited run.
        honest: What it says of the honest one.
        edit: The edit.
    """
    if said.code != 0:
        return "refused"
    if not is_silent(said, honest):
        return "named"
    if edit.line and edit.line in said.not_checked:
        return "only named as not checked"
    return "silent"


def try_edits(runs: dict[str, Path], edits: tuple[Edit, ...], careful: bool, found: Found) -> None:
    """Edit a copy of the runs in each of many ways, and have the commands judge it; the verdicts
    are added to `found`, and printed.

    A command passes an edit in silence where it says no more than of the honest run, and does not
    name what was edited as not checked.

    Args:
        runs: Method -> honest run.
        edits: The edits.
        careful: Whether checksums are computed anew after an edit.
        found: Gets the verdicts.
    """
    said_of_honest: dict[str, tuple[Said, Said, Said]] = {}
    for method in {edit.of for edit in edits}:
        with copies(runs) as here:
            said_of_honest[method] = judged(here, method)
    for edit in edits:
        with copies(runs) as here:
            folder = Folder(here[edit.of], here["full-context"])
            edit.change(folder)
            if careful:
                folder.seal()
            here[edit.of] = folder.path
            compared, reported, verified = judged(here, edit.of)
        compared_honest, reported_honest, _ = said_of_honest[edit.of]
        verdicts = {
            "compare": verdict_of_table(compared, compared_honest, edit),
            "report": verdict_of_table(reported, reported_honest, edit),
            "verify": verdict_of_verify(verified, edit),
        }
        for command, verdict in verdicts.items():
            found.verdicts[command][edit.name] = verdict
        print(edit.name, *verdicts.values(), sep=" | ", flush=True)


def try_honest(runs: dict[str, Path], pairs: tuple[Honest, ...], found: Found) -> None:
    """Have the commands judge pairs of honest runs; pairs that are refused or marked are added to
    `found`.

    Args:
        runs: Method -> honest run.
        pairs: The pairs.
        found: Gets the names of the pairs.
    """
    for pair in pairs:
        with copies(runs) as here:
            folder_of_runs = here["bm25"].parent.parent
            ours, theirs = pair.make(here)
            compared = call("compare", str(ours), str(theirs))
            reported = call("report", str(folder_of_runs))
            for said in (compared, reported):
                unexpected_marks = {mark for mark in said.marks if not pair.expects(mark)}
                if said.code or unexpected_marks:
                    why = "; ".join(unexpected_marks) or said.text[-300:]
                    found.hurt.append(f"{pair.name}: {why}")
                    break  # a pair counts once


def chosen(edits: tuple[Edit, ...], only: str | None) -> tuple[Edit, ...]:
    """The edits, or only the one of the name `only`."""
    return tuple(edit for edit in edits if only in (None, edit.name))


def main() -> None:
    """Try all edits and honest pairs, and print what passes and what is hurt."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--careful", action="store_true")
    parser.add_argument("--only", help="the edit of this name alone")
    options = parser.parse_args()
    edits = chosen(ALL_EDITS, options.only)
    searches = chosen((*SEARCH_EDITS, UNPAID_PROBES, THIRD_OF_INDEX), options.only)
    pairs = () if options.only else HONEST
    found = Found()
    with TemporaryDirectory() as folder:
        runs = {}
        if edits:
            methods = f"--method {','.join(METHODS)} --limit {QUESTIONS}"
            runs = make_runs(Path(folder, "runs"), methods)
            try_edits(runs, edits, options.careful, found)
        if searches:
            made = make_runs(Path(folder, "searches"), SEARCHES, BESIDE_SEARCHES)
            try_edits(made, searches, options.careful, found)
        how = ", checksums computed anew" if options.careful else ""
        print(f"{len(edits) + len(searches)} kinds of edits{how}")
        print(*found.lines(), sep="\n", flush=True)
        try_honest(runs, pairs, found)
    hurt = f"honest pairs refused or marked: {len(found.hurt)} of {len(pairs)}"
    print(hurt, *found.hurt, sep="\n  ")


if __name__ == "__main__":
    main()
