"""Vectors of all passages by an encoder of harness/embed, searched exactly by faiss (inner
product).

    00000.npy   float32 [2048, width], written when its passages are encoded; a killed build goes on at the next one

Searching maps the files into memory, so neither building nor searching holds the vectors of the
corpus: what of them is in memory the system may take back.
"""

import hashlib
import io
import itertools
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
    """A name that changes with all that changes a vector or a file. Raises CannotRun for an
    unusable encoder."""
    facts = encoder_facts(config)
    if facts.problems:
        raise CannotRun(facts.problems[0])
    digest = hashlib.sha256(canonical([facts.identity, SIZE]).encode()).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '-', Path(config.name).name)}-{digest[:8]}"


class DenseIndex:
    """The index of a corpus by the vectors of an encoder; see PassageRanker."""

    def __init__(self, folder: Path, passages: int, config: EncoderConfig) -> None:
        """folder: of the vectors; passages: of the corpus; config: of the encoder."""
        self.name = config.name
        self.folder = folder
        self._passages = passages
        self._config = config
        self._count = -(-passages // SIZE)
        self._open: dict[int, np.ndarray] = {}

    def facts(self) -> dict[str, object]:
        """Name and identity of the encoder, for the manifest."""
        return {"retriever": self.name, **encoder_facts(self._config).identity}

    def _vector_file(self, number: int) -> Path:
        return self.folder / f"{number:05}.npy"

    def build(self, table: Passages, report: Report) -> None:
        """Encode the passages that are missing. Raises CannotRun."""
        first = next((n for n in range(self._count) if not self._vector_file(n).exists()), None)
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
        """Rank by inner product with the question's vector; see PassageRanker.

        Args:
            questions: Their texts.
            k: Passages of each question.
            report: Called with the progress.
            meter: Counts the cost of encoding the questions.
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
        order = np.lexsort((heap.I, -heap.D))
        return np.take_along_axis(heap.D, order, 1), np.take_along_axis(heap.I, order, 1)

    def _vectors(self, number: int) -> np.ndarray:
        """The vectors of a file, mapped into memory at its first use."""
        if number not in self._open:
            with open(self._vector_file(number), "rb") as file:
                # Of an open file it would make a copy.
                self._open[number] = np.load(file.name, mmap_mode="r")
        return self._open[number]
