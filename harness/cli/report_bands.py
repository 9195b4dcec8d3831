"""`harness report bands`: stored answers under every scorer that applies, and whether the ranking depends on it.

harness report bands results
harness report bands results/musique --format csv --out bands.csv
"""

from __future__ import annotations

from typing import Annotated

from harness.cli.command import output
from harness.cli.options import MovedData, RunsFolders
from harness.cli.output import format_of, write
from harness.cli.stored_runs import stored_runs, with_rows


def report_bands(
    folders: RunsFolders = None,
    data: MovedData = None,
    form: Annotated[
        str | None, output("--format NAME", "text, md, csv, latex or json.", "by the ending of --out, else text")
    ] = None,
    out: Annotated[str | None, output("--out FILE", "Write to a file: .txt, .md, .csv, .tex or .json.")] = None,
) -> int:
    """Show stored answers under every scorer that applies, and where the ranking depends on it.

    No model is loaded, and run folders stay as they are. csv and json hold a row for each method and scorer.
    """
    kind = format_of(form, out)
    runs, damaged = stored_runs(folders or ["results"], streamed=True)
    from reports.bands import frame, of_runs, sections
    from reports.render import render, render_sections

    bands = of_runs(with_rows(runs, data))
    text = render(frame(bands), kind) if kind in ("csv", "json") else render_sections(sections(bands), kind)
    write(text, out)
    return 3 if damaged else 0
