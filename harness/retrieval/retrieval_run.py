"""Retrieve documents of a corpus for the questions of a data set.

corpus ──► table of passages ──► index (bm25 | an encoder) ──► best passages ──► documents by MaxP ──► file
questions, without their answers ─────────────────────────────┘                      gold ──► printed recall only
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config.schema import EncoderConfig
from harness.datasets.open_rows import OpenRow
from harness.errors import CannotRun
from harness.retrieval.corpus import Corpus
from harness.retrieval.maxp import best_documents
from harness.retrieval.output import Recall, manifest_path, write
from harness.retrieval.passages import Report, open_table
from harness.storage.files import check_writable, delete_drafts, write_atomic
from harness.storage.package_versions import versions
from harness.storage.paths import without_home
from harness.storage.run_files import folder_lock
from harness.types import VERSION

if TYPE_CHECKING:
    from harness.retrieval.corpus_bm25 import BM25Index
    from harness.retrieval.dense_index import DenseIndex

_PACKAGES = ("bm25s", "faiss-cpu", "numpy", "sentence-transformers", "torch")


@dataclass(frozen=True)
class Request:
    """What is retrieved. encoder: None for BM25; top: documents a question; words: of a passage;
    index: folder."""

    corpus: Path
    encoder: EncoderConfig | None
    top: int
    words: int
    index: Path
    out: Path


@dataclass(frozen=True)
class RetrievalResult:
    """What was written. facts: as in the manifest; without: how many questions have no documents
    and are left out."""

    facts: dict[str, Any]
    recall: Recall
    without: int


def check_packages(encoder: EncoderConfig | None) -> None:
    """Raise CannotRun if the package that the retriever needs is missing."""
    package, module = ("bm25s", "bm25s") if encoder is None else ("faiss-cpu", "faiss")
    if importlib.util.find_spec(module) is None:
        raise CannotRun(
            f"harness retrieve needs the package '{package}', which is not installed: "
            "pip install 'longdoc-harness[retrieval]'"
        )


def retrieve(
    request: Request, rows: Sequence[OpenRow], source: dict[str, Any], report: Report
) -> RetrievalResult:
    """Complete the index, search it for each question, and write the file of passages and its
    manifest.

    Args:
        rows: The questions; their gold answers are used for the printed recall only.
        source: What the manifest says of the data set.

    Raises:
        UserError: The corpus cannot be used.
        SaveError: A file cannot be written.
    """
    check_packages(request.encoder)
    corpus = Corpus(request.corpus, request.words)
    folder = request.index / f"{corpus.form}-{request.words}"
    check_writable(folder)
    with folder_lock(folder):
        delete_drafts(folder)
        table = open_table(corpus, folder, report)
        index = _make_index(folder, len(table), request.encoder)
        index.build(table, report)
        search = partial(index.search, report=report)
        hits = best_documents(
            search, table.documents_of, [row.question for row in rows], request.top, len(table)
        )
        recall = write(request.out, rows, hits, table, report)
    without = sum(not documents for documents in hits)
    facts = {
        "questions": len(rows) - without,
        "top": request.top,
        "dataset": source,
        "corpus": {key: value for key, value in table.facts.items() if key != "modified"},
        "index": index.facts(),
        "answer recall": asdict(recall),
        "versions": {"harness": VERSION, **versions(_PACKAGES)},
    }
    manifest = json.dumps(without_home(facts), indent=2, ensure_ascii=False) + "\n"
    write_atomic(manifest_path(request.out), manifest.encode())
    return RetrievalResult(facts, recall, without)


def _make_index(
    folder: Path, passages: int, encoder: EncoderConfig | None
) -> BM25Index | DenseIndex:
    """The index of the retriever, to be built. Imported here, because each needs a package of its
    own."""
    if encoder is None:
        from harness.retrieval import corpus_bm25

        return corpus_bm25.BM25Index(folder / corpus_bm25.folder_name(), passages)
    from harness.retrieval import dense_index

    return dense_index.DenseIndex(folder / dense_index.folder_name(encoder), passages, encoder)
