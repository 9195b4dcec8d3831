"""`harness serve-index DIR`: serve an index to several runs (run --corpus http://127.0.0.1:8000) and
to programs that ask as FlashRAG's and Search-R1's servers are asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import execution
from harness.cli.output import say
from harness.errors import UserError
from harness.parallel.signals import interrupt_on_signals
from harness.retrieval.index_server import make_server
from harness.retrieval.search_index import SearchIndex


def serve_index(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder that harness index-corpus made.")
    ],
    port: Annotated[int, execution("--port N", "Port; 0 for a free one.", min=0, max=65535)] = 8000,
    host: Annotated[
        str,
        execution("--host ADDRESS", "Address to listen at; other machines reach 0.0.0.0, unasked."),
    ] = "127.0.0.1",
) -> int:
    """Serve an index to several runs and to other programs; Ctrl-C ends it.

    Runs name it by --corpus http://HOST:PORT. POST /retrieve takes Search-R1's requests, POST
    /search and /batch_search those of servers over FlashRAG's retrievers.
    """
    index = SearchIndex.open(Path(folder).expanduser())
    try:
        server = make_server(index, host, port)
    except OSError as error:
        raise UserError(
            f"{host}:{port} cannot be used ({error.strerror}); name another --port, 0 for a free one"
        ) from None
    try:
        with server, interrupt_on_signals():
            index_facts = index.facts
            say(
                f"serving {index_facts.passages:,} passages of {index_facts.corpus} ({index_facts.kind}); Ctrl-C ends"
            )
            print(f"http://{host}:{server.server_port}", flush=True)
            server.serve_forever()
    except KeyboardInterrupt:
        say("\nthe server has ended")
    return 0
