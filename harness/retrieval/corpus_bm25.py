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

from harness.config.schema import canonical_json
from harness.cost.meter import Meter
from harness.retrieval.passages import Passages, Report
from harness.retrieval.rankers import RankedPassages
from harness.storage.files import delete_abandoned_drafts, make_folder, new_folder, write_atomic
from harness.words import words

PASSAGES_PER_SHARD = 100_000

OPTIONS: dict[str, str | float] = {"method": "lucene", "k1": 1.5, "b": 0.75}

_STOP_WORDS = frozenset(stopwords.STOPWORDS_EN)
_WORDS_VERSION = 5  # raised when harness/words.py cuts otherwise, or a file has another form
_HASHES_FILE = "hashes.npy"
_WORD_IDS_FILE = "numbers.npy"


def folder_name() -> str:
    """The name of an index's folder, "bm25-1a2b3c4d", with a hash of all settings of scores and
    files.
    """
    settings = canonical_json([OPTIONS, PASSAGES_PER_SHARD, _WORDS_VERSION])
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
        self,
        corpus_frequencies: np.ndarray,
        shard_frequencies: np.ndarray,
        n_passages: int,
        mean_length: np.float64,
    ) -> None:
        """Keep the statistics of the corpus, by which the scores of the shard are computed.

        Args:
            corpus_frequencies: In how many passages of the corpus each word of the shard stands
                [words].
            shard_frequencies: In how many passages of the shard each of its words stands [words].
            n_passages: The number of passages of the corpus.
            mean_length: The mean number of words of a passage of the corpus.
        """
        super().__init__(**OPTIONS)
        self._corpus_frequencies = corpus_frequencies
        self._shard_frequencies = shard_frequencies
        self._n_passages = n_passages
        self._mean_length = mean_length

    def build_index_from_ids(
        self, unique_token_ids: list[int], corpus_token_ids: list[list[int]], **_: Any
    ) -> dict[str, np.ndarray | int]:
        """Compute the score of each word in each passage, as the sparse matrix that bm25s stores.

        bm25s calls this in place of its own method, which would take IDF and mean length from the
        shard alone; here both are the corpus's. Sets `nonoccurrence_array`, which bm25s reads in a
        search, to None: words that a passage lacks have no score.

        Args:
            unique_token_ids: The ids of the words of the shard.
            corpus_token_ids: The ids of the words of each passage.

        Returns:
            "data", "indices" and "indptr" of the matrix [passages, words], and "num_docs".
        """
        self.nonoccurrence_array = None
        corpus_idf = scoring._build_idf_array(
            dict(enumerate(self._corpus_frequencies.tolist())),
            self._n_passages,
            scoring._select_idf_scorer(self.idf_method),
            self.dtype,
        )
        scores, rows, columns = scoring._build_scores_and_indices_for_matrix(
            corpus_token_ids=corpus_token_ids,
            idf_array=corpus_idf,
            avg_doc_len=self._mean_length,
            # By these bm25s knows how many entries the shard's matrix has.
            doc_frequencies=dict(enumerate(self._shard_frequencies.tolist())),
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


def _hash_of_word(word: str) -> int:
    """The first 64 bits of a hash of a word, as a number."""
    digest = hashlib.blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@dataclass(frozen=True)
class _OpenShard:
    """A shard that is mapped into memory.

    Attributes:
        index: The index of bm25s, which knows words by their ids.
        word_hashes: The hashes of the words of the shard, sorted [words].
        word_ids: The id of the word that each hash is of [words].
    """

    index: bm25s.BM25
    word_hashes: np.ndarray
    word_ids: np.ndarray

    @classmethod
    def open(cls, folder: Path) -> "_OpenShard":
        """Open the shard in a folder; its arrays are mapped into memory, not read."""
        index = bm25s.BM25.load(folder, mmap=True, load_vocab=False, show_progress=False)
        word_hashes = np.load(folder / _HASHES_FILE, mmap_mode="r")
        word_ids = np.load(folder / _WORD_IDS_FILE, mmap_mode="r")
        return cls(index, word_hashes, word_ids)

    def scores(self, query_hashes: np.ndarray) -> np.ndarray | None:
        """The score of each passage of the shard [passages] for a query; None where none of its
        words is there. Words are looked up by their hashes in `word_hashes`, which are sorted.

        Args:
            query_hashes: The hash (`_hash_of_word`) of each word of the query.
        """
        if not len(self.word_hashes):
            return None
        places = np.searchsorted(self.word_hashes, query_hashes)
        places = np.minimum(places, len(self.word_hashes) - 1)
        is_in_shard = self.word_hashes[places] == query_hashes
        ids_of_query = self.word_ids[places[is_in_shard]].tolist()
        if not ids_of_query:
            return None
        return np.asarray(self.index.get_scores_from_ids(ids_of_query))


@dataclass(frozen=True)
class _SplitPassages:
    """The words of the passages of one shard.

    Attributes:
        words: All different words; the id of a word is its index.
        frequencies: The number of passages that each word stands in [words].
        word_ids: The ids of the words of all passages, one passage after the other [tokens].
        lengths: The number of words of each passage [passages].
    """

    words: list[str]
    frequencies: np.ndarray
    word_ids: np.ndarray
    lengths: np.ndarray

    @classmethod
    def split(cls, texts: Iterable[str]) -> "_SplitPassages":
        """Split passages into words and number these in the order in which they appear.

        ["Ada built", "Ada"] -> words ["ada", "built"], frequencies [2, 1], word_ids [0, 1, 0],
        lengths [2, 1]
        """
        id_by_word: dict[str, int] = {}
        ids_of_passages: list[list[int]] = []
        for text in texts:
            ids = [id_by_word.setdefault(word, len(id_by_word)) for word in _index_words(text)]
            ids_of_passages.append(ids)
        frequencies = np.zeros(len(id_by_word), dtype=np.int32)
        for ids in ids_of_passages:
            frequencies[list(set(ids))] += 1
        word_ids = np.fromiter(itertools.chain.from_iterable(ids_of_passages), dtype=np.int32)
        lengths = np.array(list(map(len, ids_of_passages)), dtype=np.int32)
        return cls(list(id_by_word), frequencies, word_ids, lengths)

    @classmethod
    def load(cls, path: Path) -> "_SplitPassages":
        """Read the words and the arrays from the .npz file that `save` wrote."""
        with np.load(path) as arrays:
            words_text = arrays["words"].tobytes().decode()
            words = words_text.split("\n") if words_text else []
            return cls(words, arrays["frequencies"], arrays["ids"], arrays["lengths"])

    def save(self, path: Path) -> None:
        """Write the words, as the bytes of a text with one a line, and the arrays to one .npz
        file.

        Raises SaveError.
        """
        buffer = io.BytesIO()
        np.savez(
            buffer,
            ids=self.word_ids,
            lengths=self.lengths,
            words=np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8),
            frequencies=self.frequencies,
        )
        write_atomic(path, buffer.getvalue(), setting="--index")

    def frequency_by_word(self) -> dict[str, int]:
        """Map each word to the number of passages of this shard that it stands in."""
        return dict(zip(self.words, self.frequencies.tolist(), strict=True))

    def word_ids_of_passages(self) -> list[list[int]]:
        """The ids of the words of each passage: word_ids [0, 1, 0] with lengths [2, 1] -> [[0, 1],
        [0]].
        """
        ids_of_passages: list[list[int]] = []
        start = 0
        for length in self.lengths.tolist():
            ids_of_passages.append(self.word_ids[start : start + length].tolist())
            start += length
        return ids_of_passages


class BM25Index:
    """The index of a corpus by words; see PassageRanker."""

    name = "bm25"

    def __init__(self, folder: Path, n_passages: int) -> None:
        """Keep where the index is; nothing is read before `search`.

        Args:
            folder: The folder of the index; "shards" in it has a folder for each shard.
            n_passages: The number of passages of the corpus.
        """
        self.folder = folder
        self._tokens_folder = folder / "tokens"
        self._shards_folder = folder / "shards"
        self._n_passages = n_passages
        self._n_shards = math.ceil(n_passages / PASSAGES_PER_SHARD)
        self._open_shards: dict[int, _OpenShard] = {}

    def facts(self) -> dict[str, object]:
        """The name and settings of the retriever, for the manifest: {"retriever": "bm25", "k1":
        1.5, ..}.
        """
        return {"retriever": self.name, "stop words": "en", "stemmer": None, **OPTIONS}

    def build(self, table: Passages, report: Report) -> None:
        """Make the shards that are missing, after counting the words of all passages of the
        corpus.

        The words of all passages are kept in files until the last shard is made, so a killed build
        goes on; then these files are deleted.

        Args:
            table: The passages.
            report: Called with the progress.

        Raises:
            SaveError: A file cannot be written.
        """
        missing_shards = self._missing_shards()
        if not missing_shards:
            return
        for folder in (self._tokens_folder, self._shards_folder):
            make_folder(folder, "--index")
        delete_abandoned_drafts(self._shards_folder)
        self._store_words(table, report)
        frequency_by_word: Counter[str] = Counter()
        n_words = 0
        for shard_number in range(self._n_shards):
            split_passages = _SplitPassages.load(self._tokens_file(shard_number))
            frequency_by_word.update(split_passages.frequency_by_word())
            n_words += int(split_passages.lengths.sum())
        mean_length = np.float64(n_words / self._n_passages)
        for shard_number in missing_shards:
            report("indexing passages", shard_number * PASSAGES_PER_SHARD, self._n_passages)
            self._write_shard(shard_number, frequency_by_word, mean_length)
        shutil.rmtree(self._tokens_folder)

    def _missing_shards(self) -> list[int]:
        """The numbers of the shards that are not made yet."""
        numbers = range(self._n_shards)
        return [number for number in numbers if not self._shard_folder(number).exists()]

    def _shard_folder(self, shard_number: int) -> Path:
        """The folder of a shard: 3 -> "shards/00003"."""
        return self._shards_folder / f"{shard_number:05}"

    def _tokens_file(self, shard_number: int) -> Path:
        """The file with the words of a shard's passages: 3 -> "tokens/00003.npz"."""
        return self._tokens_folder / f"{shard_number:05}.npz"

    def _first_shard_without_words(self) -> int:
        """The number of the first shard whose words are not stored yet; the count of shards
        where all are.
        """
        for shard_number in range(self._n_shards):
            if not self._tokens_file(shard_number).exists():
                return shard_number
        return self._n_shards

    def _store_words(self, table: Passages, report: Report) -> None:
        """Split the passages of each shard whose words are not stored yet into words, and store
        these with their frequencies.

        Args:
            table: The passages.
            report: Called with the progress.

        Raises:
            SaveError: A file cannot be written.
        """
        first_shard = self._first_shard_without_words()
        texts = table.passage_texts(first_shard * PASSAGES_PER_SHARD)
        for shard_number in range(first_shard, self._n_shards):
            n_done = shard_number * PASSAGES_PER_SHARD
            report("splitting passages into words", n_done, self._n_passages)
            texts_of_shard = itertools.islice(texts, PASSAGES_PER_SHARD)
            _SplitPassages.split(texts_of_shard).save(self._tokens_file(shard_number))

    def _write_shard(
        self, shard_number: int, frequency_by_word: Counter[str], mean_length: np.float64
    ) -> None:
        """Make a shard from the stored words of its passages; its folder appears when it is
        complete.

        Args:
            shard_number: The number of the shard.
            frequency_by_word: Word -> in how many passages of the corpus it stands.
            mean_length: The mean number of words of a passage of the corpus.

        Raises:
            SaveError: A file cannot be written.
        """
        split_passages = _SplitPassages.load(self._tokens_file(shard_number))
        words = split_passages.words
        corpus_frequencies = np.array([frequency_by_word[word] for word in words])
        shard = _Shard(
            corpus_frequencies=corpus_frequencies,
            shard_frequencies=split_passages.frequencies,
            n_passages=self._n_passages,
            mean_length=mean_length,
        )
        id_by_word = {word: word_id for word_id, word in enumerate(words)}
        shard.index((split_passages.word_ids_of_passages(), id_by_word), show_progress=False)
        with new_folder(self._shard_folder(shard_number), "--index") as draft_folder:
            shard.save(draft_folder, show_progress=False)
            # In place of bm25s's vocabulary: the sorted hashes of the words, and their ids.
            (draft_folder / "vocab.index.json").unlink()
            hashes = np.array([_hash_of_word(word) for word in words], dtype=np.uint64)
            word_ids_by_hash = np.argsort(hashes)
            np.save(draft_folder / _HASHES_FILE, hashes[word_ids_by_hash])
            np.save(draft_folder / _WORD_IDS_FILE, word_ids_by_hash.astype(np.int32))

    def search(
        self, questions: Sequence[str], k: int, report: Report, meter: Meter
    ) -> RankedPassages:
        """Rank the passages for each question by BM25; no model is called. Only passages with a
        score above 0 are found; where they are fewer than k, the rest have the number -1.

        Args:
            questions: The texts of the questions.
            k: How many passages of each question.
            report: Called with the progress.
            meter: Not used.
        """
        hashes_of_questions = [_hashes_of_words(question) for question in questions]
        best_scores = np.zeros((len(questions), k), dtype=np.float32)
        best_numbers = np.full((len(questions), k), -1, dtype=np.int64)
        for shard_number in range(self._n_shards):
            first_passage = shard_number * PASSAGES_PER_SHARD
            report("searching passages", first_passage, self._n_passages)
            shard = self._open_shard(shard_number)
            for question_number, query_hashes in enumerate(hashes_of_questions):
                scores = shard.scores(query_hashes)
                if scores is not None:
                    _merge_into_best(
                        best_scores[question_number],
                        best_numbers[question_number],
                        scores,
                        first_passage,
                    )
        return RankedPassages(best_scores, best_numbers)

    def _open_shard(self, shard_number: int) -> _OpenShard:
        """Open the shard with this number; later calls return the same one."""
        if shard_number not in self._open_shards:
            shard = _OpenShard.open(self._shard_folder(shard_number))
            self._open_shards[shard_number] = shard
        return self._open_shards[shard_number]


def _hashes_of_words(question: str) -> np.ndarray:
    """The hashes of the words of a question that are indexed [words]."""
    return np.array([_hash_of_word(word) for word in _index_words(question)], dtype=np.uint64)


def _merge_into_best(
    best_scores: np.ndarray, best_numbers: np.ndarray, scores: np.ndarray, first_passage: int
) -> None:
    """Merge the scores of a shard into the best of the shards before it.

    `best_scores` and `best_numbers` are changed in place.

    Args:
        best_scores: The best scores so far [k], highest first.
        best_numbers: The numbers of their passages [k].
        scores: The scores of the shard's passages [passages].
        first_passage: The number of the shard's first passage.
    """
    better = np.flatnonzero(scores > best_scores[-1])  # indices in the shard
    k = len(best_scores)
    if len(better) > k:  # those that are not among the shard's own best need no sorting
        kth_best = np.partition(scores[better], -k)[-k]
        better = better[scores[better] >= kth_best]
    if len(better):
        all_scores = np.concatenate([best_scores, scores[better]])
        all_numbers = np.concatenate([best_numbers, better + first_passage])
        best_first = np.lexsort((all_numbers, -all_scores))[:k]  # by score, ties by number
        best_scores[:] = all_scores[best_first]
        best_numbers[:] = all_numbers[best_first]
