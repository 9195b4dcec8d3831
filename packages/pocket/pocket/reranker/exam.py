"""What the pocket world's reranker finds, beside BM25, a sentence encoder and chance, on texts of evaluation seeds.

    rows = examine(folder, questions=100, seed=1)      one Row for each ranker on each kind of text
    write(folder, settings, rows)                      card.json and CARD.md beside the weights

Of every text the five best chunks of 100 tokens count. `facts`: the share of the sentences that state the supporting
facts of which at least half is in them; `passages`: the same of the supporting passages, which is what the tables call
evidence recall. Questions that nothing supports are left out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from harness_training.cards import markdown_table
from harness_training.exam import Value
from harness_training.loop import load_checkpoint

from harness.config.resolve import resolved
from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.scorers.evidence import evidence_recall
from harness.stats import bootstrap as stats
from harness.storage.file_hash import file_hash
from harness.storage.home import write_json
from harness.types import Shown
from methods.bm25 import bm25
from pocket.reranker.data import HOPS, Listed, Offsets, chunk_lists
from pocket.train.llama import weights_digest
from pocket.world.sample import sample

if TYPE_CHECKING:
    from pocket.reranker.train import Settings

KINDS = ("musique", "hotpotqa", "narrativeqa", "qasper")
SEED = 1
_TOKENS, _CHUNK, _TOP = 1640, 100, 5
Rank = Callable[[str, Sequence[str]], np.ndarray]  # (question, texts) -> scores [texts], the best ones highest
_HEAD = """# pocket-reranker

A toy cross-encoder of the synthetic world, so that the reranker rows can run anywhere: it stands in for a real reranker
in the names of rows (`bge-reranker[pocket-reranker]`). On real text its scores mean nothing.
"""
_MEASURES = {
    "facts": "Sentences that state a supporting fact, of which at least half is in the five best chunks, per cent.",
    "passages": "The same of the supporting passages, which the tables call evidence recall, per cent.",
}


@dataclass(frozen=True)
class Row:
    """Mean recall with its 95 % interval, clustered by text. measure: of _MEASURES; n, texts: questions and texts."""

    kind: str
    ranker: str
    measure: str
    mean: float | None
    low: float | None
    high: float | None
    n: int
    texts: int


def examine(folder: Path, *, questions: int, seed: int = SEED, tell: Callable[[str], None]) -> list[Row]:
    """Rows for the reranker in `folder` and its rivals. questions: of each kind; tell: called with a line a kind.

    The sentence encoder is left out where its package is not installed. Raises CannotRun for a folder that is none.
    """
    rankers, offsets = _rankers(folder)
    rows: list[Row] = []
    for kind in KINDS:
        texts = (sample(kind, seed, tokens=_TOKENS, purpose="evaluation", hops=HOPS, number=n) for n in count())
        lists = list(islice(chain.from_iterable(chunk_lists(made, _CHUNK, offsets) for made in texts), questions))
        new = [row for name, rank in rankers.items() for row in _ranker_rows(kind, name, lists, rank)]
        tell(f"{kind}: " + ", ".join(f"{r.ranker} {100 * (r.mean or 0):.0f}" for r in new if r.measure == "facts"))
        rows += new
    return rows


def _ranker_rows(kind: str, name: str, lists: Sequence[Listed], rank: Rank) -> list[Row]:
    """A row for each measure: mean recall at 5 of one ranker on questions of one kind."""
    best = [np.argsort(-rank(item.question, item.texts), kind="stable")[:_TOP] for item in lists]
    chunks = [[item.chunks[int(i)] for i in order] for item, order in zip(lists, best, strict=True)]
    shown = [[Shown("span", c.document_id, c.start, c.end) for c in five] for five in chunks]
    documents = [item.document for item in lists]
    rows = []
    for measure in ("facts", "passages"):
        pairs = zip(shown, (getattr(item, measure) for item in lists), strict=True)
        values = [float(evidence_recall(spans, needed) or 0.0) for spans, needed in pairs]
        interval = stats.interval(values, documents)
        rows.append(Row(kind, name, measure, interval.mean, interval.low, interval.high, interval.n, interval.clusters))
    return rows


def _rankers(folder: Path) -> tuple[dict[str, Rank], Offsets]:
    """The rankers that are compared, by name, and what splits a text into tokens."""
    from transformers import AutoTokenizer

    from harness.embed.encoder_info import encoder_facts
    from harness.embed.load import load_encoder, load_reranker
    from pocket.reranker.train import LONGEST, offsets_of

    config = EncoderConfig(name="pocket-reranker", source=str(folder), max_length=LONGEST)
    reranker = load_reranker(config, Meter(), "reranker")
    rankers: dict[str, Rank] = {"pocket-reranker": reranker.score, "bm25": bm25}
    minilm: EncoderConfig = resolved("encoders", sets={"encoder": "minilm"})  # of the rows sbert in profile pocket
    if not encoder_facts(minilm).problems:
        rankers["minilm"] = _similarity_rank(load_encoder(minilm, Meter(), "encoder"))
    rankers["random"] = _random_rank
    return rankers, offsets_of(AutoTokenizer.from_pretrained(str(folder)))


def _similarity_rank(encoder: Any) -> Rank:
    """A ranker by the similarity of question and chunks under a sentence encoder."""

    @lru_cache(maxsize=1)  # questions about one text follow each other
    def passages(texts: tuple[str, ...]) -> Any:
        return encoder.encode(texts, "passage")

    def rank(question: str, texts: Sequence[str]) -> np.ndarray:
        (query,) = encoder.encode([question], "query")
        return np.asarray(encoder.similarity(query, passages(tuple(texts))))

    return rank


def _random_rank(question: str, texts: Sequence[str]) -> np.ndarray:
    draw = random.Random(question)
    return np.array([draw.random() for _ in texts])


def write(folder: Path, settings: Settings, rows: Sequence[Row]) -> None:
    """Write card.json and CARD.md into the model's folder. Raises OSError."""
    saved = load_checkpoint(settings.out / "checkpoint", {})
    assert saved is not None  # written by the training
    trained = {name: getattr(settings, name) for name in ("layers", "seed", "steps", "questions")}
    trained |= {"begin": weights_digest(settings.begin), "tokens": saved.progress.tokens}
    trained["processor_minutes"] = round(saved.progress.seconds / 60, 1)
    card = {
        "name": "pocket-reranker",
        "trained": trained,
        "sha256": {name: file_hash(folder / name) for name in ("model.safetensors", "tokenizer.json")},
        "exam": {"seed": SEED, "questions": max((row.n for row in rows), default=0)},
        "results": [asdict(row) for row in rows],
    }
    (folder / "CARD.md").write_text(_page(card, rows), encoding="utf-8")
    write_json(folder / "card.json", card)


def _page(card: dict[str, Any], rows: Sequence[Row]) -> str:
    """The text of CARD.md. card: the values of card.json; rows: the results, of which it makes a table a measure."""
    run = card["trained"]
    origin = (
        f"Cut from pocket-llama (weights {run['begin']}): its input embeddings and first {run['layers']} layers, "
        f"under a new head. {run['steps']:,} steps of {run['questions']} questions with all chunks of their texts, "
        f"{run['tokens']:,} tokens, {run['processor_minutes']} minutes of one processor core, seed {run['seed']}.\n"
    )
    tasks = (
        "Recall at 5 on texts of 1,640 tokens in chunks of 100, questions of one hop and two, evaluation seed "
        f"{SEED}: mean [95 % interval, clustered by text].\n"
    )
    parts = [_HEAD, origin, tasks]
    for measure, meaning in _MEASURES.items():
        found = [row for row in rows if row.measure == measure]
        cells = {(r.ranker, r.kind): f"{Value(r.mean, r.low, r.high, r.n).text()} of {r.n}" for r in found}
        kinds, rankers = (list(dict.fromkeys(names)) for names in ([r.kind for r in found], [r.ranker for r in found]))
        table = [["ranker", *kinds], *([name, *(cells[name, kind] for kind in kinds)] for name in rankers)]
        parts += [f"## {measure}\n\n{meaning}\n", markdown_table(table)]
    return "\n".join(parts).rstrip() + "\n"
