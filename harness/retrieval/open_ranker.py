"""Finds the index of a corpus for one way of ranking: BM25, or the vectors of an encoder."""

from pathlib import Path

from harness.config.schema import EncoderConfig
from harness.retrieval.rankers import PassageRanker


def ranker_in_folder(folder: Path, n_passages: int, encoder: EncoderConfig | None) -> PassageRanker:
    """The index of a corpus for one way of ranking; nothing is read or built yet.

    Args:
        folder: The folder of all indexes of the corpus; each has a folder in it, named after its
            settings.
        n_passages: The number of passages of the corpus.
        encoder: Encodes passages and questions; None for BM25.

    Raises:
        CannotRun: The encoder cannot be used.
    """
    # Late, because each needs a package of its own.
    if encoder is None:
        from harness.retrieval import corpus_bm25

        return corpus_bm25.BM25Index(folder / corpus_bm25.folder_name(), n_passages)
    from harness.retrieval import dense_index

    return dense_index.DenseIndex(folder / dense_index.folder_name(encoder), n_passages, encoder)
