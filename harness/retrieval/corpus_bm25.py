"""BM25 over the passages of a corpus, by bm25s, in shards that carry the statistics of the whole
corpus.

The BM25 of methods, over the texts of one question, is harness/bm25.py. Both read the words of
harness/words.py.

    1. tokens/00000.npz   words of 100,000 passages, and in how many of them each word stands
    2. shards/00000/      bm25s's own index of these passages, made with N, the mean length and df of all passages;
                          hashes.npy, numbers.npy in place of its vocabulary: a hash of each word, sorted,
                          and its number

So a passage has the score that one index of the whole corpus gives it, and memory grows by the
counts of distinct words alone. A killed build goes on at the shard it was at. A search reads
shards that are mapped into memory: what of them is in memory the system may take back.

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
from dataclasses import dataclass
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
_WORDS_VERSION = 5  # raised when harness/words.py cuts otherwise, or a file has another form
_HASHES, _NUMBERS = "hashes.npy", "numbers.npy"


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


def _hash(word: str) -> int:
    """64 bits of a word's hash."""
    digest = hashlib.blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True)
class _OpenShard:
    """A shard that is mapped into memory. hashes: of its words, sorted; numbers: the word of
    each."""

    index: bm25s.BM25
    hashes: np.ndarray
    numbers: np.ndarray

    @classmethod
    def at(cls, folder: Path) -> "_OpenShard":
        """The shard in a folder."""
        index = bm25s.BM25.load(folder, mmap=True, load_vocab=False, show_progress=False)
        hashes = np.load(folder / _HASHES, mmap_mode="r")
        return cls(index, hashes, np.load(folder / _NUMBERS, mmap_mode="r"))

    def scores(self, hashes: np.ndarray) -> np.ndarray | None:
        """Scores [passages] for the words with these hashes; None where it has none of them."""
        if not len(self.hashes):
            return None
        places = np.searchsorted(self.hashes, hashes)
        places = np.minimum(places, len(self.hashes) - 1)
        known = places[self.hashes[places] == hashes]
        if not len(known):
            return None
        return np.asarray(self.index.get_scores_from_ids(self.numbers[known].tolist()))


class BM25Index:
    """The index of `passages` passages in `folder`; `build` makes what is missing."""

    name = "bm25"
    uses_words = True

    def __init__(self, folder: Path, passages: int) -> None:
        self.folder = folder
        self._tokens = folder / "tokens"
        self._shards = folder / "shards"
        self._passages = passages
        self._count = -(-passages // SIZE)
        self._open: dict[int, _OpenShard] = {}

    def facts(self) -> dict[str, Any]:
        """Name and settings of the retriever, for the manifest."""
        return {"retriever": self.name, "stop words": "en", "stemmer": None, **OPTIONS}

    def build(self, table: Passages, report: Report) -> None:
        """Make the shards that are missing, after counting the words of all passages."""
        missing = [n for n in range(self._count) if not (self._shards / f"{n:05}").exists()]
        if not missing:
            return
        for folder in (self._tokens, self._shards):
            make_folder(folder, "--index")
        delete_old_folders(self._shards)
        self._count_words(table, report)
        frequencies: Counter[str] = Counter()
        tokens = 0
        for n in range(self._count):
            with np.load(self._tokens / f"{n:05}.npz") as piece:
                frequencies.update(
                    dict(zip(_load_words(piece), piece["frequencies"].tolist(), strict=True))
                )
                tokens += int(piece["lengths"].sum())
        mean = np.float64(tokens / self._passages)
        for n in missing:
            report("indexing passages", n * SIZE, self._passages)
            self._write_shard(n, frequencies, mean)
        shutil.rmtree(self._tokens)

    def _count_words(self, table: Passages, report: Report) -> None:
        """Split the passages of each shard that lacks it into words, and store the words with their
        frequencies."""
        first = next(
            (n for n in range(self._count) if not (self._tokens / f"{n:05}.npz").exists()),
            self._count,
        )
        texts = table.passage_texts(first * SIZE)
        for n in range(first, self._count):
            report("splitting passages into words", n * SIZE, self._passages)
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
        shard = _Shard(np.array([frequencies[word] for word in words]), local, self._passages, mean)
        ids = [flat[start:end].tolist() for start, end in itertools.pairwise([0, *ends])]
        shard.index((ids, {word: n for n, word in enumerate(words)}), show_progress=False)
        with new_folder(self._shards / f"{number:05}", "--index") as draft:
            shard.save(draft, show_progress=False)
            (draft / "vocab.index.json").unlink()
            hashes = np.array([_hash(word) for word in words], dtype=np.uint64)
            order = np.argsort(hashes)
            np.save(draft / _HASHES, hashes[order])
            np.save(draft / _NUMBERS, order.astype(np.int32))

    def search(
        self, questions: Sequence[str], k: int, report: Report
    ) -> tuple[np.ndarray, np.ndarray]:
        """Scores and passage numbers [questions, k], best first, ties by number; -1 where no more
        passages match."""
        queries = [self._hashes(question) for question in questions]
        scores = np.zeros((len(questions), k), dtype=np.float32)
        passages = np.full((len(questions), k), -1, dtype=np.int64)
        for n in range(self._count):
            report("searching passages", n * SIZE, self._passages)
            shard = self._shard(n)
            for q, query in enumerate(queries):
                found = shard.scores(query)
                if found is not None:
                    _merge_best(scores[q], passages[q], found, n * SIZE)
        return scores, passages

    def _shard(self, number: int) -> _OpenShard:
        """A shard, opened at its first use."""
        if number not in self._open:
            self._open[number] = _OpenShard.at(self._shards / f"{number:05}")
        return self._open[number]

    @staticmethod
    def _hashes(question: str) -> np.ndarray:
        """The hashes of the words of a question."""
        return np.array([_hash(word) for word in _index_words(question)], dtype=np.uint64)


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
