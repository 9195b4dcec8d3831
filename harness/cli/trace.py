"""`harness trace RUN QUESTION_ID`: print the stored search of one question (reports/trace.py), or
play it on a page."""

from __future__ import annotations

import json as json_
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import output
from harness.cli.options import Convention, Json, MovedData
from harness.cli.table_output import terminal_width, write
from harness.cost.flops import DEFAULT
from harness.errors import UserError, printable
from harness.storage.named_runs import run_folder
from harness.storage.run_folder import read_question, read_run

if TYPE_CHECKING:
    from reports.trace import Search

_LARGEST = 100_000_000  # bytes of a drawn graph


def trace(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run folder.")],
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUESTION_ID]",
            help="question_id of a line in records.jsonl; all are listed without.",
        ),
    ] = None,
    graph: Annotated[
        str | None,
        output("--graph FILE.html", "Write a page that plays the search on its drawn graph."),
    ] = None,
    prompts: Annotated[
        bool,
        output(
            "--prompts", "Print every request with its reply too (of a run with --keep-prompts)."
        ),
    ] = False,
    data: MovedData = None,
    convention: Convention = None,
    json: Json = False,
) -> int:
    """Print the search of one question as a tree, or play it on a page with its graph.

    Without QUESTION_ID, lists the questions of the run, failed ones first.
    """
    from reports.trace import question_list, search_json, search_of, trace_lines

    if graph is not None and Path(graph).suffix.lower() != ".html":
        raise UserError(
            f"--graph writes a page, which saves SVG, PNG and PDF; '{graph}' does not end in .html"
        )
    if question is None:
        if graph is not None or prompts or json:
            raise UserError(
                "--graph, --prompts and --json are of one question; name its QUESTION_ID"
            )
        width = terminal_width("text", None)
        print("\n".join(line[:width] for line in question_list(read_run(run_folder(run)))))
        return 0
    if json and convention is not None:
        raise UserError("--json has the FLOPs under every convention; leave out --convention")
    search = search_of(read_question(run_folder(run), question), question, data)
    search = replace(search, convention=convention or DEFAULT)
    sent = search.stored.requests(search.record.question_id) if prompts else []
    if prompts and not sent:
        raise UserError(
            f"{search.stored.path} holds no requests of this question; run it with --keep-prompts"
        )
    if graph is not None:
        write(_page(search, data), graph)
    if json:
        print(
            json_.dumps(
                search_json(search) | ({"requests": sent} if prompts else {}), ensure_ascii=True
            )
        )
        return 0
    print("\n".join(trace_lines(search) + ([f"graph      {graph}"] if graph is not None else [])))
    for number, request in enumerate(sent):
        head = ", ".join(printable(request[key]) for key in ("phase", "role", "kind"))
        prompt, reply = (printable(request[key], None) for key in ("prompt", "reply"))
        print(f"\nrequest {number}: {head}\n{prompt}\n-> {reply}")
    return 0


def _page(search: Search, data: str | None) -> str:
    """The HTML page of this question alone; data: as --data. Raises UserError for a search without
    a graph."""
    from reports.details import Limits
    from reports.gold_rows import with_data_at
    from reports.page import page

    if search.graph is None:
        problem = search.problem or "this search went over no graph."
        raise UserError(f"nothing to draw: {problem[0].lower()}{problem[1:]}")
    return page(
        [with_data_at(search.stored, data)],
        title=search.record.question_id,
        limits=Limits(graphs=_LARGEST),
    )
