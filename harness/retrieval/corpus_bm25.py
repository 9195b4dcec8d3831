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
import math
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
from bm25s import scoring, stopwords

from harness.config.schema import canonical
from harness.cost.meter import Meter
from harness.retrieval.passages import Passages, Report
from harness.storage.files import delete_abandoned_drafts, make_folder, new_folder, write_atomic
from harness.words import words

SIZE = 100_000
"""Passages of a shard."""

OPTIONS: dict[str, str | float] = {"method": "lucene", "k1": 1.5, "b": 0.75}

_STOP_WORDS = frozenset(stopwords.STOPWORDS_EN)
_WORDS_VERSION = 5  # raised when harness/words.py cuts otherwise, or a file has another form
_HASHES, _NUMBERS = "hashes.npy", "numbers.npy"


def folder_name() -> str:
    """The name of an index's folder, "bm25-1a2b3c4d", with a hash of all settings of scores and
    files.
    """
    settings = canonical([OPTIONS, SIZE, _WORDS_VERSION])
    return f"bm25-{hashlib.sha256(settings.encode()).hexdigest()[:8]}"


def _index_words(text: str) -> list[str]:
    """The words of a text that are indexed: "The mill B 7 é" -> ["mill", "é"].

    Stop words, and single letters and digits of ASCII, are left out.
    """
    return list(filter(_is_indexed, words(text)))


def _is_indexed(word: str) -> bool:
    """Whether a word is neither a stop word nor a single letter or digit of ASCII."""
    if word in _STOP_WORDS:
        return False
    return len(word) > 1 or not word.isascii()


class _Shard(bm25s.BM25):  # type: ignore[misc]
    """bm25s's index of some passages with the statistics of all; see
    bm25s.BM25.build_index_from_ids."""

    def __init__(
        self, frequencies: np.ndarray, local: np.ndarray, passages: int, mean_length: np.float64
    ) -> None:
        """Keep the statistics of the corpus, by which the scores of the shard are computed.

        Args:
            frequencies: In how many passages of the corpus each word of the shard stands [words].
            local: In how many passages of the shard each of its words stands [words].
            passages: The number of passages of the corpus.
            mean_length: The mean number of words of a passage of the corpus.
        """
        super().__init__(**OPTIONS)
        self._all = frequencies
        self._local = local
        self._passages = passages
        self._mean = mean_length

    def build_index_from_ids(
        self, unique_token_ids: list[int], corpus_token_ids: list[list[int]], **_: Any
    ) -> dict[str, np.ndarray | int]:
        """Compute the score of each word in each passage, as the sparse matrix that bm25s stores.

        bm25s calls this in place of its own method, which would use the statistics of the shard
        alone.

        Args:
            unique_token_ids: The ids of the words of the shard.
            corpus_token_ids: The ids of the words of each passage.

        Returns:
            "data", "indices" and "indptr" of the matrix [passages, words], and "num_docs".
        """
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
    """The first 64 bits of a hash of a word, as a number."""
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
        """Open the shard in a folder; its arrays are mapped into memory, not read."""
        index = bm25s.BM25.load(folder, mmap=True, load_vocab=False, show_progress=False)
        hashes = np.load(folder / _HASHES, mmap_mode="r")
        return cls(index, hashes, np.load(folder / _NUMBERS, mmap_mode="r"))

    def scores(self, hashes: np.ndarray) -> np.ndarray | None:
        """The score of each passage of the shard [passages] for a query; None where none of its
        words is there.

        Args:
            hashes: The hashes (`_hash`) of the words of the query.
        """
        if not len(self.hashes):
            return None
        places = np.searchsorted(self.hashes, hashes)
        places = np.minimum(places, len(self.hashes) - 1)
        is_in_shard = self.hashes[places] == hashes
        word_ids = self.numbers[places[is_in_shard]].tolist()
        if not word_ids:
            return None
        return np.asarray(self.index.get_scores_from_ids(word_ids))


@dataclass(frozen=True)
class _SplitPassages:
    """The words of the passages of one shard.

    Attributes:
        words: All different words; the id of a word is its index.
        frequencies: The number of passages that each word stands in [words].
        ids: The ids of the words of all passages, one passage after the other [tokens].
        lengths: The number of words of each passage [passages].
    """

    words: list[str]
    frequencies: np.ndarray
    ids: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, texts: Iterable[str]) -> "_SplitPassages":
        """Split passages into words and number these in the order in which they appear.

        ["Ada built", "Ada"] -> words ["ada", "built"], frequencies [2, 1], ids [0, 1, 0], lengths
        [2, 1]
        """
        vocabulary: dict[str, int] = {}
        ids: list[list[int]] = []
        for text in texts:
            ids.append([])
            for word in _index_words(text):
                ids[-1].append(vocabulary.setdefault(word, len(vocabulary)))
        frequencies = np.zeros(len(vocabulary), dtype=np.int32)
        for passage in ids:
            frequencies[list(set(passage))] += 1
        flat = np.fromiter(itertools.chain.from_iterable(ids), dtype=np.int32)
        lengths = np.array(list(map(len, ids)), dtype=np.int32)
        return cls(list(vocabulary), frequencies, flat, lengths)

    @classmethod
    def load(cls, path: Path) -> "_SplitPassages":
        """Read the file that `save` wrote."""
        with np.load(path) as arrays:
            text = arrays["words"].tobytes().decode()
            words = text.split("\n") if text else []
            return cls(words, arrays["frequencies"], arrays["ids"], arrays["lengths"])

    def save(self, path: Path) -> None:
        """Write the words, as the bytes of a text with one a line, and the arrays to one .npz
        file.

        Raises SaveError.
        """
        buffer = io.BytesIO()
        np.savez(
            buffer,
            ids=self.ids,
            lengths=self.lengths,
            words=np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8),
            frequencies=self.frequencies,
        )
        write_atomic(path, buffer.getvalue(), setting="--index")

    def frequency_of_word(self) -> dict[str, int]:
        """Map each word to the number of passages of this shard that it stands in."""
        return dict(zip(self.words, self.frequencies.tolist(), strict=True))

    def ids_of_passages(self) -> list[list[int]]:
        """The ids of the words of each passage: ids [0, 1, 0] with lengths [2, 1] -> [[0, 1],
        [0]].
        """
        passages: list[list[int]] = []
        start = 0
        for length in self.lengths.tolist():
            passages.append(self.ids[start : start + length].tolist())
            start += length
        return passages


class BM25Index:
    """The index of a corpus by words; see PassageRanker."""

    name = "bm25"

    def __init__(self, folder: Path, passages: int) -> None:
        """Keep where the index is; nothing is read before `search`.

        Args:
            folder: The folder of the index; "shards" in it has a folder for each SIZE passages.
            passages: The number of passages of the corpus.
        """
        self.folder = folder
        self._tokens = folder / "tokens"
        self._shards = folder / "shards"
        self._passages = passages
        self._count = math.ceil(passages / SIZE)
        self._open: dict[int, _OpenShard] = {}

    def facts(self) -> dict[str, object]:
        """The name and settings of the retriever, for the manifest: {"retriever": "bm25", "k1":
        1.5, ..}.
        """
        return {"retriever": self.name, "stop words": "en", "stemmer": None, **OPTIONS}

    def build(self, table: Passages, report: Report) -> None:
        """Make the shards that are missing, after counting the words of all passages of the
        corpus.

        The counts are kept in files until the last shard is made, so a killed build goes on.

        Args:
            table: The passages.
            report: Called with the progress.

        Raises:
            SaveError: A file cannot be written.
        """
        missing = [n for n in range(self._count) if not self._shard_folder(n).exists()]
        if not missing:
            return
        for folder in (self._tokens, self._shards):
            make_folder(folder, "--index")
        delete_abandoned_drafts(self._shards)
        self._count_words(table, report)
        frequencies: Counter[str] = Counter()
        tokens = 0
        for n in range(self._count):
            part = _SplitPassages.load(self._tokens_file(n))
            frequencies.update(part.frequency_of_word())
            tokens += int(part.lengths.sum())
        mean = np.float64(tokens / self._passages)
        for n in missing:
            report("indexing passages", n * SIZE, self._passages)
            self._write_shard(n, frequencies, mean)
        shutil.rmtree(self._tokens)

    def _shard_folder(self, number: int) -> Path:
        """The folder of a shard: 3 -> "shards/00003"."""
        return self._shards / f"{number:05}"

    def _tokens_file(self, number: int) -> Path:
        """The file with the words of a shard's passages: 3 -> "tokens/00003.npz"."""
        return self._tokens / f"{number:05}.npz"

    def _first_unsplit(self) -> int:
        """The number of the first shard whose words are not stored yet; the count of shards
        where all are.
        """
        for number in range(self._count):
            if not self._tokens_file(number).exists():
                return number
        return self._count

    def _count_words(self, table: Passages, report: Report) -> None:
        """Split the passages of each shard whose words are not stored yet into words, and store
        these with their frequencies.

        Args:
            table: The passages.
            report: Called with the progress.

        Raises:
            SaveError: A file cannot be written.
        """
        first = self._first_unsplit()
        texts = table.passage_texts(first * SIZE)
        for n in range(first, self._count):
            report("splitting passages into words", n * SIZE, self._passages)
            _SplitPassages.of(itertools.islice(texts, SIZE)).save(self._tokens_file(n))

    def _write_shard(self, number: int, frequencies: Counter[str], mean: np.float64) -> None:
        """Make a shard from the stored words of its passages; its folder appears when it is
        complete.

        Args:
            number: The number of the shard.
            frequencies: Word -> in how many passages of the corpus it stands.
            mean: The mean number of words of a passage of the corpus.

        Raises:
            SaveError: A file cannot be written.
        """
        part = _SplitPassages.load(self._tokens_file(number))
        words = part.words
        in_corpus = np.array([frequencies[word] for word in words])
        shard = _Shard(in_corpus, part.frequencies, self._passages, mean)
        vocabulary = {word: n for n, word in enumerate(words)}
        shard.index((part.ids_of_passages(), vocabulary), show_progress=False)
        with new_folder(self._shard_folder(number), "--index") as draft:
            shard.save(draft, show_progress=False)
            (draft / "vocab.index.json").unlink()
            hashes = np.array([_hash(word) for word in words], dtype=np.uint64)
            order = np.argsort(hashes)
            np.save(draft / _HASHES, hashes[order])
            np.save(draft / _NUMBERS, order.astype(np.int32))

    def search(
        self, questions: Sequence[str], k: int, report: Report, meter: Meter
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rank the passages for each question by BM25; no model is called.

        Args:
            questions: The texts of the questions.
            k: How many passages of each question.
            report: Called with the progress.
            meter: Not used.

        Returns:
            Scores and passage numbers [questions, k], best first; -1 where no more passages match.
        """
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
        """The open shard with this number. Also opens it, at its first use, and keeps it."""
        if number not in self._open:
            self._open[number] = _OpenShard.at(self._shard_folder(number))
        return self._open[number]

    @staticmethod
    def _hashes(question: str) -> np.ndarray:
        """The hashes of the words of a question."""
        return np.array([_hash(word) for word in _index_words(question)], dtype=np.uint64)


def _merge_best(best: np.ndarray, passages: np.ndarray, scores: np.ndarray, offset: int) -> None:
    """Merge the scores of a shard into the best of the shards before it; `best` and `passages` are
    changed in place.

    Args:
        best: The best scores so far [k], highest first.
        passages: The numbers of their passages [k].
        scores: The scores of the shard's passages.
        offset: The number of the shard's first passage.
    """
    rows = np.flatnonzero(scores > best[-1])
    k = len(best)
    if len(rows) > k:  # those that are not among the shard's own best need no sorting
        kth_best = np.partition(scores[rows], -k)[-k]
        rows = rows[scores[rows] >= kth_best]
    if len(rows):
        all_scores = np.concatenate([best, scores[rows]])
        numbers = np.concatenate([passages, rows + offset])
        order = np.lexsort((numbers, -all_scores))[:k]  # by score, ties by number
        best[:] = all_scores[order]
        passages[:] = numbers[order]
