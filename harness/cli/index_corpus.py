"""`harness index-corpus CORPUS --out DIR`: make the index that `harness run --corpus DIR` searches.

exit 0 made · 2 a mistake · 3 something could not be saved · 130 interrupted; the same command resumes
"""

from __future__ import annotations

import json as json_
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import choice, output, setting
from harness.cli.options import Json
from harness.cli.output import say
from harness.cli.stage_progress import stage_progress
from harness.cli.stopping import until_interrupted
from harness.config.layers import Choices
from harness.config.resolve import DEFAULT_PRESETS, resolve_encoder
from harness.config.schema import EncoderConfig
from harness.config.yaml_tree import parse_assignments
from harness.errors import ConfigError, UserError
from harness.retrieval.corpus import write_folder_as_corpus
from harness.retrieval.search_index import KINDS, IndexRequest, build_index


def index_corpus(
    corpus: Annotated[
        str,
        typer.Argument(
            metavar="CORPUS",
            help="JSON lines with id, text and perhaps title, also FlashRAG's and KILT's, DPR's "
            "table, gzipped or not; or a folder of pages.",
        ),
    ],
    out: Annotated[str, output("--out DIR", "Folder of the index.")],
    kind: Annotated[str, choice("--kind bm25|dense|hybrid", "What ranks passages.")] = "bm25",
    encoder: Annotated[
        str | None,
        choice(
            "--encoder NAME",
            "Encoder of the kinds dense and hybrid (harness list encoders).",
            "minilm",
            complete="encoders",
        ),
    ] = None,
    words: Annotated[
        int, setting("--words N", "Words of a passage, where pages are cut into passages.", min=1)
    ] = 100,
    sets: Annotated[
        list[str] | None,
        setting("--set KEY=VALUE ...", "A setting of the encoder: encoder.device=cuda."),
    ] = None,
    json: Json = False,
) -> int:
    """Make an index of a corpus, which runs search in: harness run --corpus DIR.

    The index holds the passages, so the corpus is not needed any more. The same command resumes one
    that was interrupted.
    """
    if kind not in KINDS:
        raise UserError(f"--kind {kind}: should be {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    encoder_config = _resolve_encoder_option(kind, encoder, sets or [])
    corpus_path = Path(corpus).expanduser()
    if not corpus_path.exists():
        raise UserError(f"{corpus}: no such file or folder")
    folder = Path(out).expanduser()
    if corpus_path.is_dir():
        corpus_path = _write_pages_as_corpus_file(corpus_path, folder)

    request = IndexRequest(
        corpus_file=corpus_path,
        folder=folder,
        kind=kind,
        encoder=encoder_config,
        words_per_passage=words,
    )
    work = partial(_build_and_print, request, as_json=json)
    return until_interrupted(work, "interrupted; the same command goes on")


def _build_and_print(request: IndexRequest, *, as_json: bool) -> int:
    """Build an index and print where it is and what it holds. Returns the exit code 0."""
    with stage_progress() as progress:
        index_facts = build_index(request, progress)
    folder = request.folder
    if as_json:
        print(json_.dumps({"folder": str(folder), **index_facts.described.to_json()}))
        return 0
    size_text = f"{index_facts.passages:,} passages of {index_facts.documents:,} documents"
    print(f"{folder}: {size_text}, {request.kind}")
    say(f"use it: harness run --method NAME --dataset NAME --corpus {folder}")
    return 0


def _resolve_encoder_option(kind: str, name: str | None, sets: list[str]) -> EncoderConfig | None:
    """Resolve the encoder that the options name; None for BM25, which has none.

    Args:
        kind: "bm25", "dense" or "hybrid".
        name: The encoder; None for the default one.
        sets: Its settings, as typed: ["encoder.device=cuda"].

    Raises:
        UserError: An option that does not fit, or an encoder behind a server.
    """
    assignments = parse_assignments(sets, "--set ")
    other_keys = [key for key in assignments if not key.startswith("encoder.")]
    if other_keys:
        raise ConfigError([f"--set {other_keys[0]}: only encoder.KEY can be set here"])
    if kind == "bm25":
        if name is not None or assignments:
            raise UserError("an encoder is for --kind dense and hybrid")
        return None
    config = resolve_encoder(
        Choices(sets={**assignments, "encoder": name or DEFAULT_PRESETS["encoder"]})
    ).value
    if config.base_url is not None:
        raise UserError(
            f"'{config.name}' is behind a server; an index needs an encoder that is loaded here"
        )
    return config


def _write_pages_as_corpus_file(pages: Path, index_folder: Path) -> Path:
    """Write the pages of a folder as one corpus file into the folder of the index.

    Prints a warning for each page that is left out.
    """
    file, warnings = write_folder_as_corpus(pages, index_folder)
    for warning in warnings:
        say(f"warning: {warning}")
    return file
