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

from harness.config.schema import EncoderConfig, canonical
from harness.cost.meter import Meter
from harness.embed.encoder_info import encoder_facts
from harness.embed.load import load_encoder
from harness.errors import CannotRun
from harness.retrieval.passages import Passages, Report
from harness.retrieval.rankers import ROLE
from harness.storage.files import make_folder, write_atomic

SIZE = 2048
"""Passages of a file; vectors of one file are encoded in calls of BATCH, whatever was there
before."""
BATCH = 1024


def folder_name(config: EncoderConfig) -> str:
    """The name of an index's folder, "e5-5e6f7a8b": the encoder, and a hash of all that changes a
    vector.

    Raises CannotRun for an encoder that cannot be used.
    """
    facts = encoder_facts(config)
    if facts.problems:
        raise CannotRun(facts.problems[0])
    digest = hashlib.sha256(canonical([facts.identity, SIZE]).encode()).hexdigest()
    last_part = Path(config.name).name
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", last_part)
    return f"{name}-{digest[:8]}"


class DenseIndex:
    """The index of a corpus by the vectors of an encoder; see PassageRanker."""

    def __init__(self, folder: Path, passages: int, config: EncoderConfig) -> None:
        """Keep where the index is; nothing is read before `search`.

        Args:
            folder: The folder of the files of vectors.
            passages: The number of passages of the corpus.
            config: The encoder's.
        """
        self.name = config.name
        self.folder = folder
        self._passages = passages
        self._config = config
        self._count = math.ceil(passages / SIZE)
        self._open: dict[int, np.ndarray] = {}

    def facts(self) -> dict[str, object]:
        """The name and identity of the encoder, for the manifest."""
        return {"retriever": self.name, **encoder_facts(self._config).identity}

    def _vector_file(self, number: int) -> Path:
        """The file with the vectors of the passages from number * SIZE on: 3 -> "00003.npy"."""
        return self.folder / f"{number:05}.npy"

    def _first_missing(self) -> int | None:
        """The number of the first file of vectors that is not written yet; None where all are."""
        for number in range(self._count):
            if not self._vector_file(number).exists():
                return number
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
        first = self._first_missing()
        if first is None:
            return
        make_folder(self.folder, "--index")
        encoder = load_encoder(self._config, Meter(), ROLE)
        texts = table.passage_texts(first * SIZE)
        for n in range(first, self._count):
            shard_texts = list(itertools.islice(texts, SIZE))
            parts: list[np.ndarray] = []
            for start in range(0, len(shard_texts), BATCH):
                report("encoding passages", n * SIZE + start, self._passages)
                batch = shard_texts[start : start + BATCH]
                parts.append(encoder.encode(batch, "passage"))
            buffer = io.BytesIO()
            np.save(buffer, np.concatenate(parts))
            write_atomic(self._vector_file(n), buffer.getvalue(), setting="--index")

    def search(
        self, questions: Sequence[str], k: int, report: Report, meter: Meter
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rank the passages for each question by the inner product of the vectors.

        Args:
            questions: The texts of the questions.
            k: How many passages of each question.
            report: Called with the progress.
            meter: Counts the cost of encoding the questions.

        Returns:
            Scores and passage numbers [questions, k], best first, ties by number; -1 where there
            are no more passages.
        """
        encoder = load_encoder(self._config, meter, ROLE)
        queries = np.asarray(encoder.encode(list(questions), "query"))
        heap = faiss.ResultHeap(len(queries), k, keep_max=True)
        for n in range(self._count):
            report("searching passages", n * SIZE, self._passages)
            vectors = self._vectors(n)
            scores, rows = faiss.knn(
                queries, vectors, min(k, len(vectors)), faiss.METRIC_INNER_PRODUCT
            )
            heap.add_result(scores, np.where(rows < 0, rows, rows + n * SIZE))
        heap.finalize()
        best_scores, numbers = heap.D, heap.I  # [questions, k] each
        # For each question: by score, best first, then by number.
        order = np.lexsort((numbers, -best_scores), axis=1)
        return np.take_along_axis(best_scores, order, 1), np.take_along_axis(numbers, order, 1)

    def _vectors(self, number: int) -> np.ndarray:
        """The vectors in a file [passages, width]. Also maps them into memory, at their first
        use.
        """
        if number not in self._open:
            with open(self._vector_file(number), "rb") as file:
                # Of an open file it would make a copy.
                self._open[number] = np.load(file.name, mmap_mode="r")
        return self._open[number]
