"""Retrieve documents of a corpus for the questions of a data set.

corpus ──► table of passages ──► index (bm25 | an encoder) ──► best passages ──► documents by MaxP ──► file
questions, without their answers ─────────────────────────────┘                      gold ──► printed recall only
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.datasets.open_rows import OpenRow
from harness.errors import CannotRun
from harness.retrieval.corpus import Corpus
from harness.retrieval.maxp import best_documents
from harness.retrieval.open_ranker import open_ranker
from harness.retrieval.output import Recall, manifest_path, write
from harness.retrieval.passages import CorpusCounts, Passages, Report, open_table
from harness.retrieval.rankers import PassageRanker
from harness.storage.files import check_writable, delete_drafts, write_atomic
from harness.storage.package_versions import versions
from harness.storage.paths import without_home
from harness.storage.run_files import folder_lock
from harness.types import VERSION

_PACKAGES = ("bm25s", "faiss-cpu", "numpy", "sentence-transformers", "torch")


@dataclass(frozen=True)
class Request:
    """What is retrieved.

    Attributes:
        corpus: The file of its pages or passages.
        encoder: What ranks passages; None for BM25.
        top: Documents of each question.
        words: The number of words of a passage.
        index: The folder of the corpus's indexes.
        out: The file to write.
    """

    corpus: Path
    encoder: EncoderConfig | None
    top: int
    words: int
    index: Path
    out: Path


@dataclass(frozen=True)
class RetrievalResult:
    """What was written.

    Attributes:
        manifest: The JSON object in the file beside the documents.
        questions: How many have documents.
        without: How many have none, and are left out.
        corpus: Its counts.
        retriever: "bm25", or the name of the encoder.
        recall: How many questions have an answer in their documents.
    """

    manifest: Mapping[str, object]
    questions: int
    without: int
    corpus: CorpusCounts
    retriever: str
    recall: Recall


def check_packages(encoder: EncoderConfig | None) -> None:
    """Raise CannotRun if the package that a retriever needs is missing: bm25s, or faiss for
    vectors.

    Args:
        encoder: Encodes the passages; None for BM25.
    """
    package, module = "faiss-cpu", "faiss"
    if encoder is None:
        package, module = "bm25s", "bm25s"
    if importlib.util.find_spec(module) is None:
        raise CannotRun(
            f"harness retrieve needs the package '{package}', which is not installed: "
            "pip install 'longdoc-harness[retrieval]'"
        )


def retrieve(
    request: Request, rows: Sequence[OpenRow], source: Mapping[str, object], report: Report
) -> RetrievalResult:
    """Complete the index, search it for each question, and write the documents and their manifest.

    Args:
        request: The corpus, the retriever and the file.
        rows: The questions; their gold answers are used for the printed recall only.
        source: What the manifest says of the data set.
        report: Called with the progress.

    Returns:
        What was written, with the counts to print.

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
        ranker = open_ranker(folder, len(table), request.encoder)
        ranker.build(table, report)
        search = partial(ranker.search, report=report, meter=Meter())
        questions = [row.question for row in rows]
        hits = best_documents(search, table.documents_of, questions, request.top, len(table))
        recall = write(request.out, rows, hits, table, report)
    without = sum(not documents for documents in hits)
    manifest = {
        "questions": len(rows) - without,
        "top": request.top,
        "dataset": source,
        **_made_of(table, ranker),
        "answer recall": asdict(recall),
        "versions": {"harness": VERSION, **versions(_PACKAGES)},
    }
    _write_manifest(request.out, manifest)
    return RetrievalResult(
        manifest=manifest,
        questions=len(rows) - without,
        without=without,
        corpus=table.counts,
        retriever=str(ranker.facts()["retriever"]),
        recall=recall,
    )


def _made_of(table: Passages, ranker: PassageRanker) -> dict[str, object]:
    """The corpus and the index as the manifest describes them: {"corpus": {..}, "index": {..}}."""
    return {"corpus": table.manifest_entry(), "index": ranker.facts()}


def _write_manifest(out: Path, manifest: Mapping[str, object]) -> None:
    """Write the manifest beside a file of retrieved documents, without the path of the user's
    home.

    Args:
        out: The file of documents.
        manifest: What made it.

    Raises:
        SaveError: It cannot be written.
    """
    content = json.dumps(without_home(manifest), indent=2, ensure_ascii=False) + "\n"
    write_atomic(manifest_path(out), content.encode())
