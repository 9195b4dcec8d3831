"""HippoRAG 2 (Gutiérrez et al. 2025, arXiv 2502.14802): passages ranked by a walk over phrases,
triples and passages.

    index     each passage ──► its entities ──► triples (subject, relation, object)
              graph: subject ── object (how often), passage ── its phrases (1), phrase ── similar phrase (similarity)
    question  ──► the 5 most similar triples ──► those that the model keeps ──► weights of their phrases
              ──► similarity of every passage x 0.05                        ──► weights of the passages
              ──► personalised PageRank from these weights (networkx) ──► the 5 best passages are read

Where the model keeps no triple, passages are ranked by similarity alone. Source:
docs/methods/retrieval.md#hipporag.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from harness.method import Index, Indexes, MethodConfig, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.prompts import Prompt, prompt_tokens
from harness.types import Answer, Document, Question, Step
from harness.words import as_phrase
from methods import reading
from methods.chunks import shown_spans
from methods.extraction import ExtractingMethod, keep_each
from methods.packing import passage_chunks
from methods.page_rank import page_rank
from methods.retrieval import best_first
from methods.retry import Retry, ask_parsed, numbers_in, parse_list, window_of
from methods.values import values_in

ENTITIES = Prompt(
    "entities",
    "Extract the named entities of the text below: persons, places, works, organisations, dates "
    "and the like.\n\n"
    'Text:\n{text}\n\nThe text ends here. Reply with a JSON list of names alone: ["name", "name"]',
)
TRIPLES = Prompt(
    "triples",
    "Turn the text below into triples of subject, relation and object. Each triple has at least "
    "one of the listed entities, better two. Write names in place of pronouns.\n\n"
    "Text:\n"
    "{text}\n\n"
    "The text ends here. Entities: {entities}\n\n"
    'Reply with a JSON list of triples alone: [["subject", "relation", "object"]]',
)
FILTER = Prompt(
    "filter",
    "Below are facts that may help to answer a question, at once or by a further step. Choose "
    "those that do, {most} at most, or none.\n\n"
    "Question: {question}\n\n"
    "Facts:{facts}\n\n"
    "Reply in this form:\n"
    "Facts: numbers of the facts",
)
FACT = Prompt("filter, one fact", "\n{number}. {fact}", first=False)

FILTER_TOKENS = 512  # of the reply that names facts, as in the released code
SYNONYMS = 100  # of a phrase at most, likewise
Fact = tuple[str, str, str]
# Names of a triple's parts in an object, in any order.
_PARTS = ("subject", "relation", "predicate", "object")
T = TypeVar("T")


@dataclass(frozen=True)
class RankedPassages:
    """How passages were ranked.

    Attributes:
        scores: The score of each passage, [passages].
        score_name: What the scores are.
        reason: One sentence for the record.
        step: The choice of triples.
    """

    scores: np.ndarray
    score_name: str
    reason: str
    step: Step


class HippoRAG(ExtractingMethod):
    """Passages ranked by PageRank in a graph of phrases and passages, from the triples that fit the
    question."""

    class Config(MethodConfig):
        """Settings of this method."""

        # Graph: a change builds a new index.
        chunk_tokens: int = index_setting(
            500, gt=0, help="Most tokens of a passage; a longer paragraph is cut."
        )
        reply_tokens: int = index_setting(
            2048, gt=0, help="Most tokens of a list of entities or triples."
        )
        synonyms: float = index_setting(
            0.8, gt=0, le=1, help="Least cosine of two phrases that an edge joins."
        )
        window: int | None = index_setting(
            None, gt=0, help="Most tokens of a request, reply included; None = the model's window."
        )
        # Search
        k: int = setting(5, gt=0, help="Passages that are read.")
        link_k: int = setting(
            5, gt=0, help="Triples shown to the model, and phrases that the walk starts from."
        )
        damping: float = setting(0.5, gt=0, lt=1, help="How likely the walk goes on.")
        passage_weight: float = setting(
            0.05, gt=0, help="Weight of a passage's similarity among the starts of the walk."
        )

    summary = (
        "triples and passages in one graph, passages ranked by personalised PageRank (HippoRAG 2)"
    )
    traits = Traits(draws=False)
    index_version = "3"
    own_prompts = (ENTITIES, TRIPLES, FILTER, FACT)

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document, from the triples that the builder lists for each passage.

        Returns:
            "passages": [start, end] of each in the document; "facts": the distinct triples
                [subject, relation, object]; "of": for each passage the numbers of its facts;
                "synonyms": [phrase, phrase, cosine] of similar phrases, by their numbers;
                "fact_vectors" [facts, width]; "passage_vectors" [passages, width].
        """
        spans = passage_chunks(document, self.config.chunk_tokens, tools.model("builder"))
        texts = [document.text[start:end].strip() for start, end in spans]
        by_passage = keep_each(
            lambda number: self._extract(texts[number], tools), len(texts), "passage", tools
        )
        numbers: dict[Fact, int] = {}
        of_passages: list[list[int]] = []
        for rows in by_passage:
            facts_of_passage = _as_facts(rows)
            for fact in facts_of_passage:
                numbers.setdefault(fact, len(numbers))
            of_passages.append([numbers[fact] for fact in facts_of_passage])
        facts = list(numbers)
        encoder = tools.encoder()
        return {
            "passages": [list(span) for span in spans],
            "facts": [list(fact) for fact in facts],
            "of": of_passages,
            "synonyms": _similar_phrases(_phrases(facts), self.config.synonyms, tools),
            "fact_vectors": encoder.encode([str(fact) for fact in facts], "passage"),
            "passage_vectors": encoder.encode(texts, "passage"),
        }

    def _extract(self, text: str, tools: Tools) -> list[Fact]:
        """Ask the builder for the entities of a passage, then for its triples.

        Returns:
            The triples, in small letters; [] where the reply has none. One that is cut off is left
            out.
        """
        names = self._ask_builder(ENTITIES, parse_list, tools, text=[text])
        entities = ", ".join(dict.fromkeys(names)) or "none"
        return self._ask_builder(TRIPLES, triples_in, tools, text=[text], entities=[entities])

    def _ask_builder(
        self,
        prompt: Prompt,
        parse: Callable[[str], list[T] | None],
        tools: Tools,
        **values: list[str],
    ) -> list[T]:
        """Ask the builder for a list.

        Args:
            prompt: What is asked.
            parse: Reads the reply; None for one that it does not understand.
            tools: The engine's tools.
            **values: The values of the prompt's fields.

        Returns:
            What the reply lists; [] where it is not understood.
        """
        config = self.config
        model = tools.model("builder")
        pieces = prompt.with_replacements(config).fill(**values)
        room = window_of(config.window, model) - prompt_tokens(pieces, model)
        max_tokens = max(1, min(config.reply_tokens, room))
        retry = Retry(retries=0, window=config.window)
        return ask_parsed(model, pieces, max_tokens, parse, retry).found or []

    def most_shown(self) -> int | None:
        """The most passages that a reader is shown: the setting k."""
        k: int = self.config.k
        return k

    def most_tokens_shown(self) -> int | None:
        """The most tokens that a reader is shown: k passages of `chunk_tokens` each."""
        tokens: int = self.config.k * self.config.chunk_tokens
        return tokens

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Rank the passages by the walk from the question's triples, and answer from the best that
        fit."""
        (document,) = documents
        (index,) = indexes
        config = self.config
        with tools.phase("search"):
            ranked = self.rank(question, index, tools)
        best = best_first(ranked.scores)[: config.k]
        flops = tools.meter.flops()
        spans = [(int(start), int(end)) for start, end in index["passages"]]
        texts = [document.text[start:end].strip() for start, end in spans]
        request = reading.Reading(tools.task, config.window, config)
        text, count = reading.ask_fitting(question, [texts[i] for i in best], tools, request)
        read = best[:count]
        shown = shown_spans(document, [spans[i] for i in read])
        steps = [ranked.step]
        for passage, place in zip(read, shown, strict=True):
            steps.append(
                Step(
                    "read",
                    passage,
                    scores={ranked.score_name: float(ranked.scores[passage])},
                    tokens=tools.model().count(texts[passage]),
                    flops=flops,
                    shown=place,
                )
            )
        return Answer(text, shown, ranked.reason, tuple(steps))

    def rank(self, question: Question, index: Index, tools: Tools) -> RankedPassages:
        """Rank the passages of a document for a question.

        Args:
            question: The question.
            index: The document's index.
            tools: The engine's tools.

        Returns:
            Scores by PageRank from the triples that the model keeps; by similarity where it keeps
            none.
        """
        encoder = tools.encoder()
        (query,) = encoder.encode([question.text], "query")
        similarity = min_max(encoder.similarity(query, np.asarray(index["passage_vectors"])))
        fit = min_max(encoder.similarity(query, np.asarray(index["fact_vectors"])))
        kept, step = self._keep_triples(question, index, fit, tools)
        if not kept:
            reason = "no triple kept: ranked by similarity"
            return RankedPassages(similarity, "similarity", reason, step)
        scores = passage_ranks(index, fit, kept, similarity, self.config)
        return RankedPassages(scores, "pagerank", f"{len(kept)} triples kept", step)

    def _keep_triples(
        self, question: Question, index: Index, fit: np.ndarray, tools: Tools
    ) -> tuple[list[int], Step]:
        """Let the model choose among the triples that fit the question best.

        Args:
            question: The question.
            index: The document's index.
            fit: How well each triple fits the question, [triples].
            tools: The engine's tools.

        Returns:
            The numbers of the triples that it chooses, and the step "filter" of the trace.
        """
        config = self.config
        candidates = best_first(fit)[: config.link_k]
        if not candidates:
            return [], Step("filter", note="the index has no triple")
        facts = [" | ".join(index["facts"][i]) for i in candidates]
        listed: list[str] = []
        for number, fact in enumerate(facts, 1):
            listed += FACT.with_replacements(config).fill(number=str(number), fact=[fact])
        pieces = FILTER.with_replacements(config).fill(
            most=str(config.link_k), question=[reading.question_text(question)], facts=listed
        )
        response = ask_parsed(
            tools.model("searcher"),
            pieces,
            FILTER_TOKENS,
            lambda reply: numbers_in(reply, "Facts"),
            Retry(retries=0, window=config.window),
        )
        listed_numbers = response.found or []
        chosen = [n - 1 for n in listed_numbers if 1 <= n <= len(candidates)]
        kept = [candidates[place] for place in chosen]
        notes = [*response.notes, *_verdicts(facts, chosen)]
        step = Step(
            "filter",
            scores={"candidates": float(len(candidates)), "kept": float(len(kept))},
            tokens=response.tokens,
            flops=tools.meter.flops(),
            note="; ".join(notes),
        )
        return kept, step


def _verdicts(facts: Sequence[str], kept: Sequence[int]) -> list[str]:
    """What became of each fact, for the trace: ["kept: a | is by | b", "dropped: ..."].

    Args:
        facts: The facts that the model was shown.
        kept: The places in `facts`, from 0, of those that it chose.
    """
    verdicts: list[str] = []
    for place, fact in enumerate(facts):
        verdict = "dropped"
        if place in kept:
            verdict = "kept"
        verdicts.append(f"{verdict}: {fact}")
    return verdicts


def triples_in(reply: str) -> list[Fact] | None:
    """Read the triples of a reply: all lists and objects of three strings or numbers.

        '[["Ada", "born in", "Rome"], {"object": "Bo", "subject": "Ada", "relation": "knows"}]'
            -> [("ada", "born in", "rome"), ("ada", "knows", "bo")]

    Args:
        reply: A model's text.

    Returns:
        The triples, folded as phrases, none twice; [] for an empty list, None for a reply with
        neither.
    """
    values = values_in(reply)
    facts: list[Fact] = []
    for value in values:
        parts = _triple_parts(value)
        if len(parts) == 3 and all(isinstance(part, (str, int, float)) for part in parts):
            subject, relation, object_ = (as_phrase(str(part)) for part in parts)
            facts.append((subject, relation, object_))
    if not facts and [] not in values:
        return None
    complete = [fact for fact in facts if all(fact)]  # no part is empty
    return list(dict.fromkeys(complete))


def _triple_parts(value: object) -> list[object]:
    """The parts of a list or object in a reply, in the order subject, relation, object.

        {"object": "Bo", "subject": "Ada", "relation": "knows"} -> ["Ada", "knows", "Bo"]

    Of an object those that _PARTS names, if they are three, else all in their order; [] for any
    other value.
    """
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return []
    named = [value[name] for name in _PARTS if name in value]
    if len(named) == 3:
        return named
    return list(value.values())


def _as_facts(rows: Iterable[Sequence[str]]) -> list[Fact]:
    """Rows [subject, relation, object] as tuples; the cache of an index gives them back as
    lists."""
    return [(subject, relation, object_) for subject, relation, object_ in rows]


def passage_ranks(
    index: Index,
    fit: np.ndarray,
    kept: Sequence[int],
    similarity: np.ndarray,
    config: HippoRAG.Config,
) -> np.ndarray:
    """Rank passages by PageRank from the phrases of the kept triples and from all passages.

    A phrase's weight is the mean of its kept triples', each divided by the number of passages that
    have the phrase; the `link_k` heaviest phrases start the walk.

    Args:
        index: The index of HippoRAG.
        fit: How well each triple fits the question, scaled to 0 to 1, [triples].
        kept: The numbers of the triples that the model kept.
        similarity: How similar each passage is to the question, scaled to 0 to 1, [passages].
        config: The method's settings.

    Returns:
        The rank of each passage, [passages].
    """
    facts = _as_facts(index["facts"])
    phrases = _phrases(facts)
    node_of = {phrase: node for node, phrase in enumerate(phrases)}
    graph = _graph(index, facts, node_of)
    weights: dict[int, list[float]] = defaultdict(list)  # phrase -> a weight of each kept triple
    for fact in kept:
        subject, _, object_ = facts[fact]
        for phrase in (node_of[subject], node_of[object_]):
            weights[phrase].append(float(fit[fact]) / len(graph.passages_of[phrase]))
    means = {phrase: sum(values) / len(values) for phrase, values in weights.items()}
    heaviest = sorted(means.items(), key=lambda item: -item[1])[: config.link_k]
    starts = dict(heaviest)
    for passage, value in enumerate(similarity):
        starts[len(phrases) + passage] = config.passage_weight * float(value)
    n_nodes = len(phrases) + len(index["of"])
    return page_rank(n_nodes, graph.weights, starts, config.damping)[len(phrases) :]


@dataclass(frozen=True)
class _Graph:
    """The graph of phrases and passages; passages are numbered after the phrases.

    Attributes:
        weights: (node, node) -> weight; an edge's weight is the sum of both directions.
        passages_of: Phrase -> the passages that have it.
    """

    weights: dict[tuple[int, int], float]
    passages_of: dict[int, set[int]]


def _graph(index: Index, facts: Sequence[Fact], node_of: dict[str, int]) -> _Graph:
    """Build the graph of phrases and passages: phrases joined by triples, each passage with its
    phrases, and similar phrases.

    The similarity of two phrases takes the place of how often triples join them, as in the released
    code.

    Args:
        index: The index of HippoRAG.
        facts: The triples of the index, as tuples.
        node_of: Phrase -> its number in the graph.
    """
    weights: dict[tuple[int, int], float] = defaultdict(float)
    passages_of: dict[int, set[int]] = defaultdict(set)
    for passage, numbers in enumerate(index["of"]):
        passage_node = len(node_of) + passage
        for number in numbers:
            subject, _, object_ = facts[number]
            a = node_of[subject]
            b = node_of[object_]
            weights[a, b] += 1
            weights[b, a] += 1
            for phrase in (a, b):
                passages_of[phrase].add(passage)
                weights[phrase, passage_node] = 1.0
    for first, second, score in index["synonyms"]:
        weights[int(first), int(second)] = float(score)
    without_loops = {(a, b): weight for (a, b), weight in weights.items() if a != b}
    return _Graph(without_loops, passages_of)


def _phrases(facts: Sequence[Fact]) -> list[str]:
    """The distinct subjects and objects of facts, in the order in which they first occur."""
    phrases: dict[str, None] = {}
    for subject, _, object_ in facts:
        phrases[subject] = None
        phrases[object_] = None
    return list(phrases)


def _similar_phrases(phrases: Sequence[str], least: float, tools: Tools) -> list[list[float]]:
    """Find the pairs of similar phrases.

    Args:
        phrases: All phrases; one of fewer than 3 letters or digits has no pair of its own.
        least: The least cosine.
        tools: The engine's tools.

    Returns:
        [number of a phrase, of another, cosine], at most SYNONYMS of a phrase, the most similar
        ones.
    """
    vectors = tools.encoder().encode(phrases, "passage")
    # Cosine for every encoder: the threshold means nothing for raw products.
    vectors = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    pairs: list[list[float]] = []
    for i, phrase in enumerate(phrases):
        if sum(map(str.isalnum, phrase)) < 3:
            continue
        similarity = vectors @ vectors[i]
        similar = [j for j in best_first(similarity) if j != i and similarity[j] >= least]
        pairs += [[i, j, float(similarity[j])] for j in similar[:SYNONYMS]]
    return pairs


def min_max(scores: np.ndarray) -> np.ndarray:
    """The scores moved to a scale of 0 to 1: [2, 4, 3] -> [0, 1, 0.5]; all 1 where all are
    equal."""
    if not len(scores) or scores.max() == scores.min():
        return np.ones(len(scores))
    width = scores.max() - scores.min()
    return np.asarray((scores - scores.min()) / width, dtype=float)
