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
from harness.retrieval.maxp import DocumentHit, best_documents
from harness.retrieval.open_ranker import ranker_in_folder
from harness.retrieval.output import Recall, manifest_path, write_documents
from harness.retrieval.passages import CorpusCounts, Passages, Report, load_or_make_table
from harness.retrieval.rankers import PassageRanker
from harness.storage.files import check_writable, delete_drafts, write_atomic
from harness.storage.package_versions import package_versions
from harness.storage.paths import without_home
from harness.storage.run_files import folder_lock
from harness.types import VERSION

_PACKAGES = ("bm25s", "faiss-cpu", "numpy", "sentence-transformers", "torch")


@dataclass(frozen=True)
class RetrievalRequest:
    """What is retrieved.

    Attributes:
        corpus_file: The file of its pages or passages.
        encoder: What ranks passages; None for BM25.
        max_documents: Documents of each question.
        words_per_passage: The number of words of a passage.
        index_folder: The folder of the corpus's indexes.
        out: The file to write.
    """

    corpus_file: Path
    encoder: EncoderConfig | None
    max_documents: int
    words_per_passage: int
    index_folder: Path
    out: Path


@dataclass(frozen=True)
class RetrievalResult:
    """What was written.

    Attributes:
        manifest: The JSON object in the file beside the documents.
        n_with_documents: How many questions have documents.
        n_without_documents: How many have none, and are left out.
        corpus_counts: The numbers of rows, passages and documents of the corpus.
        retriever_name: "bm25", or the name of the encoder.
        recall: How many questions have an answer in their documents.
    """

    manifest: Mapping[str, object]
    n_with_documents: int
    n_without_documents: int
    corpus_counts: CorpusCounts
    retriever_name: str
    recall: Recall


def check_packages(encoder: EncoderConfig | None) -> None:
    """Raise CannotRun if the package that a retriever needs is missing: bm25s, or faiss for
    vectors.

    Args:
        encoder: Encodes the passages; None for BM25.
    """
    package = "faiss-cpu"
    module = "faiss"
    if encoder is None:
        package = "bm25s"
        module = "bm25s"
    if importlib.util.find_spec(module) is None:
        raise CannotRun(
            f"harness retrieve needs the package '{package}', which is not installed: "
            "pip install 'longdoc-harness[retrieval]'"
        )


def write_retrieved(
    request: RetrievalRequest,
    rows: Sequence[OpenRow],
    dataset_entry: Mapping[str, object],
    report: Report,
) -> RetrievalResult:
    """Complete the index, search it for each question, and write the documents and their manifest.
    The folder of the index is locked meanwhile.

    Args:
        request: The corpus, the retriever and the file.
        rows: The questions; their gold answers are used for the printed recall only.
        dataset_entry: What the manifest says of the data set.
        report: Called with the progress.

    Returns:
        What was written, with the counts to print.

    Raises:
        UserError: The corpus cannot be used.
        SaveError: A file cannot be written.
    """
    check_packages(request.encoder)
    corpus = Corpus(request.corpus_file, request.words_per_passage)
    folder = request.index_folder / f"{corpus.form}-{request.words_per_passage}"  # "dpr-100"
    check_writable(folder)
    with folder_lock(folder):
        delete_drafts(folder)
        table = load_or_make_table(corpus, folder, report)
        ranker = ranker_in_folder(folder, len(table), request.encoder)
        ranker.build(table, report)
        questions = [row.question for row in rows]
        hits_of_rows = _find_documents(questions, ranker, table, request.max_documents, report)
        recall = write_documents(request.out, rows, hits_of_rows, table, report)
    n_without_documents = sum(not hits for hits in hits_of_rows)
    n_with_documents = len(rows) - n_without_documents
    manifest = {
        "questions": n_with_documents,
        "top": request.max_documents,
        "dataset": dataset_entry,
        **_corpus_and_index(table, ranker),
        "answer recall": asdict(recall),
        "versions": {"harness": VERSION, **package_versions(_PACKAGES)},
    }
    _write_manifest(request.out, manifest)
    return RetrievalResult(
        manifest=manifest,
        n_with_documents=n_with_documents,
        n_without_documents=n_without_documents,
        corpus_counts=table.counts,
        retriever_name=str(ranker.facts()["retriever"]),
        recall=recall,
    )


def _find_documents(
    questions: Sequence[str],
    ranker: PassageRanker,
    table: Passages,
    max_documents: int,
    report: Report,
) -> list[list[DocumentHit]]:
    """The best documents of each question, best first; what the search costs is not counted.

    Args:
        questions: The texts of the questions.
        ranker: Ranks the passages of the corpus.
        table: These passages, and the document of each.
        max_documents: How many documents of each question.
        report: Called with the progress.
    """
    search = partial(ranker.search, report=report, meter=Meter())
    return best_documents(
        search,
        table.document_numbers,
        questions=questions,
        max_documents=max_documents,
        n_passages=len(table),
    )


def _corpus_and_index(table: Passages, ranker: PassageRanker) -> dict[str, object]:
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
