"""BM25 over the passages of a corpus, by bm25s, in shards that carry the statistics of the whole
corpus.

The BM25 of methods, over the texts of one question, is methods/bm25.py. Both read the words of
harness/words.py.

    1. tokens/00000.npz   words of 100,000 passages, and in how many of them each word stands
    2. shards/00000/      bm25s's own index of these passages, made with N, the mean length and df of all passages

So a passage has the score that one index of the whole corpus gives it, and memory grows by the
counts of distinct words alone. A killed build goes on at the shard it was at. Searching maps one
shard at a time into memory.

English stop words and single letters and digits of ASCII are left out, as bm25s does by default,
and there is no stemmer; variant "lucene" with k1 = 1.5 and b = 0.75, its defaults (Kamphuis et al.,
ECIR 2020).
"""

import hashlib
import io
import itertools
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
from bm25s import scoring, stopwords

from harness.config.schema import canonical
from harness.retrieval.passages import Passages, Report
from harness.storage.files import delete_old_folders, make_folder, new_folder, write_atomic
from harness.words import words

SIZE = 100_000
"""Passages of a shard."""

OPTIONS: dict[str, Any] = {"method": "lucene", "k1": 1.5, "b": 0.75}

_STOP_WORDS = frozenset(stopwords.STOPWORDS_EN)
_WORDS_VERSION = 4  # raised when harness/words.py cuts otherwise


def folder_name() -> str:
    """A name that changes with all that changes a score or a file."""
    return f"bm25-{hashlib.sha256(canonical([OPTIONS, SIZE, _WORDS_VERSION]).encode()).hexdigest()[:8]}"


def _index_words(text: str) -> list[str]:
    return [w for w in words(text) if (len(w) > 1 or not w.isascii()) and w not in _STOP_WORDS]


class _Shard(bm25s.BM25):  # type: ignore[misc]
    """bm25s's index of some passages with the statistics of all; see
    bm25s.BM25.build_index_from_ids."""

    def __init__(
        self, frequencies: np.ndarray, local: np.ndarray, passages: int, mean_length: np.float64
    ) -> None:
        """frequencies, local: df of the shard's words in the corpus and in it; passages,
        mean_length: of the corpus."""
        super().__init__(**OPTIONS)
        self._all, self._local, self._passages, self._mean = (
            frequencies,
            local,
            passages,
            mean_length,
        )

    def build_index_from_ids(
        self, unique_token_ids: list[int], corpus_token_ids: list[list[int]], **_: Any
    ) -> dict[str, Any]:
        """The score of each word in each passage, as the sparse matrix that bm25s stores."""
        self.nonoccurrence_array = None
        idf = scoring._build_idf_array(
            dict(enumerate(self._all.tolist())),
            self._passages,
            scoring._select_idf_scorer(self.idf_method),
            self.dtype,
        )
        scores, rows, columns = scoring._build_scores_and_indices_for_matrix(
            corpus_token_ids=corpus_token_ids,
            idf_array=idf,
            avg_doc_len=self._mean,
            doc_frequencies=dict(enumerate(self._local.tolist())),
            k1=self.k1,
            b=self.b,
            delta=self.delta,
            nonoccurrence_array=None,
            method=self.method,
            show_progress=False,
        )
        shape = (len(corpus_token_ids), len(unique_token_ids))
        data, indices, pointers = self._np_csc(data=scores, rows=rows, cols=columns, shape=shape)
        return {
            "data": data,
            "indices": indices,
            "indptr": pointers,
            "num_docs": len(corpus_token_ids),
        }


class BM25Index:
    """The index in `folder`; `build` makes what is missing."""

    name = "bm25"

    def __init__(self, folder: Path, table: Passages) -> None:
        self._tokens, self._shards, self._table = folder / "tokens", folder / "shards", table
        self._count = -(-len(table) // SIZE)

    def facts(self) -> dict[str, Any]:
        """Name and settings of the retriever, for the manifest."""
        return {"retriever": self.name, "stop words": "en", "stemmer": None, **OPTIONS}

    def build(self, report: Report) -> None:
        """Make the shards that are missing, after counting the words of all passages."""
        missing = [n for n in range(self._count) if not (self._shards / f"{n:05}").exists()]
        if not missing:
            return
        for folder in (self._tokens, self._shards):
            make_folder(folder, "--index")
        delete_old_folders(self._shards)
        self._count_words(report)
        frequencies: Counter[str] = Counter()
        tokens = 0
        for n in range(self._count):
            with np.load(self._tokens / f"{n:05}.npz") as piece:
                frequencies.update(
                    dict(zip(_load_words(piece), piece["frequencies"].tolist(), strict=True))
                )
                tokens += int(piece["lengths"].sum())
        mean = np.float64(tokens / len(self._table))
        for n in missing:
            report("indexing passages", n * SIZE, len(self._table))
            self._write_shard(n, frequencies, mean)
        shutil.rmtree(self._tokens)

    def _count_words(self, report: Report) -> None:
        """Split the passages of each shard that lacks it into words, and store the words with their
        frequencies."""
        first = next(
            (n for n in range(self._count) if not (self._tokens / f"{n:05}.npz").exists()),
            self._count,
        )
        texts = self._table.passage_texts(first * SIZE)
        for n in range(first, self._count):
            report("splitting passages into words", n * SIZE, len(self._table))
            vocabulary: dict[str, int] = {}
            split = map(_index_words, itertools.islice(texts, SIZE))
            ids = [
                [vocabulary.setdefault(word, len(vocabulary)) for word in passage_words]
                for passage_words in split
            ]
            local = np.zeros(len(vocabulary), dtype=np.int32)
            for passage in ids:
                local[list(set(passage))] += 1
            buffer = io.BytesIO()
            np.savez(
                buffer,
                ids=np.fromiter(itertools.chain.from_iterable(ids), dtype=np.int32),
                lengths=np.array([len(passage) for passage in ids], dtype=np.int32),
                words=np.frombuffer("\n".join(vocabulary).encode(), dtype=np.uint8),
                frequencies=local,
            )
            write_atomic(self._tokens / f"{n:05}.npz", buffer.getvalue(), setting="--index")

    def _write_shard(self, number: int, frequencies: Counter[str], mean: np.float64) -> None:
        """Write a shard in one step. frequencies: word -> df in the corpus; mean: words a passage.
        Raises SaveError."""
        with np.load(self._tokens / f"{number:05}.npz") as piece:
            words, local, flat = _load_words(piece), piece["frequencies"], piece["ids"]
            ends = np.cumsum(piece["lengths"]).tolist()
        shard = _Shard(
            np.array([frequencies[word] for word in words]), local, len(self._table), mean
        )
        ids = [flat[start:end].tolist() for start, end in itertools.pairwise([0, *ends])]
        shard.index((ids, {word: n for n, word in enumerate(words)}), show_progress=False)
        with new_folder(self._shards / f"{number:05}", "--index") as draft:
            shard.save(draft, show_progress=False)

    def search(
        self, questions: Sequence[str], k: int, report: Report
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores and passage numbers [questions, k], best first, ties by number; -1 where no more
        passages match."""
        queries = [_index_words(question) for question in questions]
        scores = np.zeros((len(questions), k), dtype=np.float32)
        passages = np.full((len(questions), k), -1, dtype=np.int64)
        for n in range(self._count):
            report("searching passages", n * SIZE, len(self._table))
            shard = bm25s.BM25.load(self._shards / f"{n:05}", mmap=True, show_progress=False)
            for q, query in enumerate(queries):
                if ids := shard.get_tokens_ids(query):
                    _merge_best(scores[q], passages[q], shard.get_scores_from_ids(ids), n * SIZE)
        return scores, passages


def _load_words(piece: Any) -> list[str]:
    """The words of a stored piece of the index. piece: its arrays by name; "words" has a word a
    line, as bytes."""
    text = piece["words"].tobytes().decode()
    return text.split("\n") if text else []


def _merge_best(best: np.ndarray, passages: np.ndarray, scores: np.ndarray, offset: int) -> None:
    """Merge a later shard's `scores` into the `best` of `passages`, in place; offset: its first
    passage's number."""
    rows = np.flatnonzero(scores > best[-1])
    if len(rows) > len(best):
        least = np.partition(scores[rows], -len(best))[-len(best)]
        rows = rows[scores[rows] >= least]
    if len(rows):
        all_scores = np.concatenate([best, scores[rows]])
        numbers = np.concatenate([passages, rows + offset])
        order = np.lexsort((numbers, -all_scores))[: len(best)]
        best[:], passages[:] = all_scores[order], numbers[order]
