"""`harness trace RUN QUESTION_ID`: print the stored search of one question (reports/trace.py), or
play it on a page."""

from __future__ import annotations

import json as json_
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import output
from harness.cli.options import Convention, Json, MovedData
from harness.cli.table_output import print_or_write, terminal_width
from harness.cost.flops import DEFAULT_CONVENTION
from harness.errors import UserError, printable
from harness.storage.kept_requests import StoredRequest
from harness.storage.named_runs import run_folder
from harness.storage.run_folder import read_question, read_run
from reports.details import PageLimits
from reports.gold_rows import with_data_path
from reports.page import PageOptions, page
from reports.trace import Search, question_list, read_search, search_json, trace_lines

_MAX_GRAPH_BYTES = 100_000_000  # bytes of a drawn graph


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
    if graph is not None and Path(graph).suffix.lower() != ".html":
        raise UserError(
            f"--graph writes a page, which saves SVG, PNG and PDF; '{graph}' does not end in .html"
        )
    if question is None:
        shows_one_question = graph is not None or prompts or json
        if shows_one_question:
            raise UserError(
                "--graph, --prompts and --json are of one question; name its QUESTION_ID"
            )
        _print_questions(run)
        return 0
    if json and convention is not None:
        raise UserError("--json has the FLOPs under every convention; leave out --convention")
    search = read_search(read_question(run_folder(run), question), question, data)
    search = replace(search, convention=convention or DEFAULT_CONVENTION)
    requests: list[StoredRequest] = []
    if prompts:
        requests = _stored_requests(search)
    if graph is not None:
        print_or_write(_page_html(search, data), graph)
    if json:
        line = search_json(search)
        if prompts:
            line["requests"] = [asdict(request) for request in requests]
        print(json_.dumps(line, ensure_ascii=True))
    else:
        _print_search(search, graph, requests)
    return 0


def _print_search(search: Search, graph: str | None, requests: Sequence[StoredRequest]) -> None:
    """Print a search as a tree, then its requests.

    Args:
        search: The search.
        graph: The file of its page; None where none is written.
        requests: Its requests, to be printed in full.
    """
    print("\n".join(trace_lines(search)))
    if graph is not None:
        print(f"graph      {graph}")
    for number, request in enumerate(requests):
        _print_request(number, request)


def _print_questions(run: str) -> None:
    """List the questions of a run, failed ones first, each line cut to the terminal's width."""
    width = terminal_width("text", out=None)
    for line in question_list(read_run(run_folder(run))):
        print(line[:width])


def _stored_requests(search: Search) -> list[StoredRequest]:
    """Read every request of the search's question, with its reply. Raises
    UserError where there is none.
    """
    requests = search.stored.requests(search.record.question_id)
    if not requests:
        raise UserError(
            f"{search.stored.path} holds no requests of this question; run it with --keep-prompts"
        )
    return requests


def _print_request(number: int, request: StoredRequest) -> None:
    """Print a stored request: phase, role and kind, then its prompt and reply in full."""
    head = ", ".join(map(printable, (request.phase, request.role, request.kind)))
    prompt = printable(request.prompt, max_characters=None)
    reply = printable(request.reply, max_characters=None)
    print(f"\nrequest {number}: {head}\n{prompt}\n-> {reply}")


def _page_html(search: Search, data: str | None) -> str:
    """Make the HTML page that plays the search of one question on its graph.

    Args:
        search: The search.
        data: Where the rows of the data set are now (--data); None where they were.

    Raises:
        UserError: The search went over no graph.
    """
    if search.graph is None:
        problem = search.problem or "this search went over no graph."
        raise UserError(f"nothing to draw: {problem[0].lower()}{problem[1:]}")
    return page(
        [with_data_path(search.stored, data)],
        PageOptions(
            title=search.record.question_id, limits=PageLimits(max_graph_bytes=_MAX_GRAPH_BYTES)
        ),
    )
