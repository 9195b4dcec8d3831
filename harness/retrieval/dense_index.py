"""Vectors of all passages by an encoder of harness/embed, searched exactly by faiss (inner
product).

    00000.npy   float32 [2048, width], written when its passages are encoded; a killed build goes on at the next one

Searching maps the files into memory, so neither building nor searching holds the vectors of the
corpus: what of them is in memory the system may take back.
"""

import hashlib
import io
import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path

import faiss
import numpy as np

from harness.config.schema import EncoderConfig, canonical_json
from harness.cost.meter import Meter
from harness.embed.encoder_info import encoder_facts
from harness.embed.load import load_encoder
from harness.errors import CannotRun
from harness.retrieval.passages import Passages, Report
from harness.retrieval.rankers import ROLE, RankedPassages
from harness.storage.files import make_folder, write_atomic

PASSAGES_PER_FILE = 2048
"""Vectors of one file are encoded in calls of PASSAGES_PER_CALL, whatever was there before."""
PASSAGES_PER_CALL = 1024


def folder_name(config: EncoderConfig) -> str:
    """The name of an index's folder, "e5-5e6f7a8b": the encoder, and a hash of all that changes a
    vector.

    Raises CannotRun for an encoder that cannot be used.
    """
    facts = encoder_facts(config)
    if facts.problems:
        raise CannotRun(facts.problems[0])
    settings = canonical_json([facts.identity, PASSAGES_PER_FILE])
    digest = hashlib.sha256(settings.encode()).hexdigest()
    name_without_owner = Path(config.name).name
    safe_name = re.sub(r"[^A-Za-z0-9._-]+", "-", name_without_owner)
    return f"{safe_name}-{digest[:8]}"


class DenseIndex:
    """The index of a corpus by the vectors of an encoder; see PassageRanker."""

    def __init__(self, folder: Path, n_passages: int, encoder_config: EncoderConfig) -> None:
        """Keep where the index is; nothing is read before `search`.

        Args:
            folder: The folder of the files of vectors.
            n_passages: The number of passages of the corpus.
            encoder_config: The encoder.
        """
        self.name = encoder_config.name
        self.folder = folder
        self._n_passages = n_passages
        self._encoder_config = encoder_config
        self._n_files = math.ceil(n_passages / PASSAGES_PER_FILE)
        self._vectors_by_file: dict[int, np.ndarray] = {}

    def facts(self) -> dict[str, object]:
        """The name and identity of the encoder, for the manifest."""
        return {"retriever": self.name, **encoder_facts(self._encoder_config).identity}

    def _vector_file(self, file_number: int) -> Path:
        """The file with the vectors of the passages from file_number * PASSAGES_PER_FILE on.

        3 -> "00003.npy"
        """
        return self.folder / f"{file_number:05}.npy"

    def _first_missing_file(self) -> int | None:
        """The number of the first file of vectors that is not written yet; None where all are."""
        for file_number in range(self._n_files):
            if not self._vector_file(file_number).exists():
                return file_number
        return None

    def build(self, table: Passages, report: Report) -> None:
        """Encode the passages whose vectors are not written yet, and write these.

        Args:
            table: The passages.
            report: Called with the progress.

        Raises:
            CannotRun: The encoder cannot be loaded.
            SaveError: A file cannot be written.
        """
        first_file = self._first_missing_file()
        if first_file is None:
            return
        make_folder(self.folder, "--index")
        encoder = load_encoder(self._encoder_config, Meter(), ROLE)
        texts = table.passage_texts(first_file * PASSAGES_PER_FILE)
        for file_number in range(first_file, self._n_files):
            first_passage = file_number * PASSAGES_PER_FILE
            texts_of_file = list(itertools.islice(texts, PASSAGES_PER_FILE))
            vectors_of_calls: list[np.ndarray] = []
            for start in range(0, len(texts_of_file), PASSAGES_PER_CALL):
                report("encoding passages", first_passage + start, self._n_passages)
                texts_of_call = texts_of_file[start : start + PASSAGES_PER_CALL]
                vectors_of_calls.append(encoder.encode(texts_of_call, "passage"))
            buffer = io.BytesIO()
            np.save(buffer, np.concatenate(vectors_of_calls))
            write_atomic(self._vector_file(file_number), buffer.getvalue(), setting="--index")

    def search(
        self, questions: Sequence[str], k: int, report: Report, meter: Meter
    ) -> RankedPassages:
        """Rank the passages for each question by the inner product of the vectors.

        Args:
            questions: The texts of the questions.
            k: How many passages of each question.
            report: Called with the progress.
            meter: Counts the cost of encoding the questions.
        """
        encoder = load_encoder(self._encoder_config, meter, ROLE)
        query_vectors = np.asarray(encoder.encode(list(questions), "query"))
        best_passages = faiss.ResultHeap(len(query_vectors), k, keep_max=True)
        for file_number in range(self._n_files):
            first_passage = file_number * PASSAGES_PER_FILE
            report("searching passages", first_passage, self._n_passages)
            vectors = self._mapped_vectors(file_number)
            scores, rows = faiss.knn(
                query_vectors, vectors, min(k, len(vectors)), faiss.METRIC_INNER_PRODUCT
            )
            is_found = rows >= 0  # faiss gives -1 in the place of a passage that it lacks
            best_passages.add_result(scores, np.where(is_found, rows + first_passage, rows))
        best_passages.finalize()
        best_scores = best_passages.D  # [questions, k]
        numbers = best_passages.I
        # For each question: by score, best first, then by number.
        order = np.lexsort((numbers, -best_scores), axis=1)
        return RankedPassages(
            np.take_along_axis(best_scores, order, axis=1),
            np.take_along_axis(numbers, order, axis=1),
        )

    def _mapped_vectors(self, file_number: int) -> np.ndarray:
        """The vectors in a file [passages, width], mapped into memory at their first use."""
        if file_number not in self._vectors_by_file:
            with open(self._vector_file(file_number), "rb") as file:
                # Of an open file it would make a copy.
                self._vectors_by_file[file_number] = np.load(file.name, mmap_mode="r")
        return self._vectors_by_file[file_number]
