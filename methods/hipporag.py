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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from harness.method import Index, Indexes, MethodConfig, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.prompts import Pieces, Prompt, prompt_tokens
from harness.types import Answer, Document, Question, Step
from harness.words import as_phrase
from methods import reading
from methods.chunks import shown_spans
from methods.extraction import ExtractingMethod, make_each_and_store
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
MAX_SYNONYMS = 100  # of a phrase at most, likewise
Fact = tuple[str, str, str]
# Names of a triple's parts in an object, in any order.
_TRIPLE_KEYS = ("subject", "relation", "predicate", "object")
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
        triples_of_passages = make_each_and_store(
            lambda number: self._ask_for_triples(texts[number], tools), len(texts), "passage", tools
        )
        number_of_fact: dict[Fact, int] = {}
        facts_of_passages: list[list[int]] = []
        for triples in triples_of_passages:
            facts_of_passage = _as_facts(triples)
            for fact in facts_of_passage:
                number_of_fact.setdefault(fact, len(number_of_fact))
            facts_of_passages.append([number_of_fact[fact] for fact in facts_of_passage])
        facts = list(number_of_fact)
        encoder = tools.encoder()
        return {
            "passages": [list(span) for span in spans],
            "facts": [list(fact) for fact in facts],
            "of": facts_of_passages,
            "synonyms": _similar_phrases(_phrases(facts), self.config.synonyms, tools),
            "fact_vectors": encoder.encode([str(fact) for fact in facts], "passage"),
            "passage_vectors": encoder.encode(texts, "passage"),
        }

    def _ask_for_triples(self, text: str, tools: Tools) -> list[Fact]:
        """Ask the builder for the entities of a passage, then for its triples.

        Returns:
            The triples, in small letters; [] where the reply has none. One that is cut off is left
            out.
        """
        names = self._ask_builder_for_list(ENTITIES, parse_list, tools, text=[text])
        entities = ", ".join(dict.fromkeys(names)) or "none"
        return self._ask_builder_for_list(
            TRIPLES, triples_in, tools, text=[text], entities=[entities]
        )

    def _ask_builder_for_list(
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
        request = prompt.with_replacements(config).fill(**values)
        tokens_left = window_of(config.window, model) - prompt_tokens(request, model)
        max_tokens = max(1, min(config.reply_tokens, tokens_left))
        retry = Retry(retries=0, window=config.window)
        return ask_parsed(model, request, max_tokens, parse, retry).parsed or []

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
        """Rank the passages by the walk from the question's triples, and answer from the best `k`, as
        many as fit. Each that is shown has a step "read" with its score."""
        (document,) = documents
        (index,) = indexes
        config = self.config
        with tools.phase("search"):
            ranked = self.rank_passages(question, index, tools)
        best_passages = best_first(ranked.scores)[: config.k]
        flops = tools.meter.flops()
        spans = [(int(start), int(end)) for start, end in index["passages"]]
        texts = [document.text[start:end].strip() for start, end in spans]
        request = reading.Reading(tools.task, window=config.window, config=config)
        text, shown_count = reading.ask_fitting(
            question, [texts[passage] for passage in best_passages], tools, request
        )
        shown_passages = best_passages[:shown_count]
        shown = shown_spans(document, [spans[passage] for passage in shown_passages])
        steps = [ranked.step]
        for passage, span in zip(shown_passages, shown, strict=True):
            steps.append(
                Step(
                    "read",
                    passage,
                    scores={ranked.score_name: float(ranked.scores[passage])},
                    tokens=tools.model().count(texts[passage]),
                    flops=flops,
                    shown=span,
                )
            )
        return Answer(text, shown, ranked.reason, tuple(steps))

    def rank_passages(self, question: Question, index: Index, tools: Tools) -> RankedPassages:
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
        (question_vector,) = encoder.encode([question.text], "query")
        passage_similarity = min_max(
            encoder.similarity(question_vector, np.asarray(index["passage_vectors"]))
        )
        fact_similarity = min_max(
            encoder.similarity(question_vector, np.asarray(index["fact_vectors"]))
        )
        chosen_facts, step = self._ask_which_triples_help(question, index, fact_similarity, tools)
        if not chosen_facts:
            reason = "no triple kept: ranked by similarity"
            return RankedPassages(
                scores=passage_similarity, score_name="similarity", reason=reason, step=step
            )
        scores = passage_ranks(
            index, fact_similarity, chosen_facts, passage_similarity, self.config
        )
        return RankedPassages(
            scores=scores,
            score_name="pagerank",
            reason=f"{len(chosen_facts)} triples kept",
            step=step,
        )

    def _ask_which_triples_help(
        self, question: Question, index: Index, fact_similarity: np.ndarray, tools: Tools
    ) -> tuple[list[int], Step]:
        """Let the model choose among the triples that fit the question best.

        Args:
            question: The question.
            index: The document's index.
            fact_similarity: How well each triple fits the question, [triples].
            tools: The engine's tools.

        Returns:
            The numbers of the triples that it chooses, and the step "filter" of the trace.
        """
        config = self.config
        candidates = best_first(fact_similarity)[: config.link_k]
        if not candidates:
            return [], Step("filter", note="the index has no triple")
        facts = [" | ".join(index["facts"][fact]) for fact in candidates]
        response = ask_parsed(
            tools.model("searcher"),
            self._filter_request(question, facts),
            FILTER_TOKENS,
            lambda reply: numbers_in(reply, "Facts"),
            Retry(retries=0, window=config.window),
        )
        listed_numbers = response.parsed or []
        chosen_places = [number - 1 for number in listed_numbers if 1 <= number <= len(candidates)]
        chosen_facts = [candidates[place] for place in chosen_places]
        notes = [*response.notes, *_verdicts(facts, chosen_places)]
        step = Step(
            "filter",
            scores={"candidates": float(len(candidates)), "kept": float(len(chosen_facts))},
            tokens=response.prompt_tokens,
            flops=tools.meter.flops(),
            note="; ".join(notes),
        )
        return chosen_facts, step

    def _filter_request(self, question: Question, facts: Sequence[str]) -> Pieces:
        """The request that asks which facts help with a question.

        Args:
            question: The question, shown with its options.
            facts: The facts, "a | is by | b" each; they are numbered from 1.
        """
        config = self.config
        listed_facts: list[str] = []
        for number, fact in enumerate(facts, 1):
            listed_facts += FACT.with_replacements(config).fill(number=str(number), fact=[fact])
        return FILTER.with_replacements(config).fill(
            most=str(config.link_k), question=[reading.question_text(question)], facts=listed_facts
        )


def _verdicts(facts: Sequence[str], chosen_places: Sequence[int]) -> list[str]:
    """What became of each fact, for the trace: ["kept: a | is by | b", "dropped: ..."].

    Args:
        facts: The facts that the model was shown.
        chosen_places: The places in `facts`, from 0, of those that it chose.
    """
    verdicts: list[str] = []
    for place, fact in enumerate(facts):
        verdict = "dropped"
        if place in chosen_places:
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
    complete_facts = [fact for fact in facts if all(fact)]  # no part is empty
    return list(dict.fromkeys(complete_facts))


def _triple_parts(value: object) -> list[object]:
    """The parts of a list or object in a reply, in the order subject, relation, object.

        {"object": "Bo", "subject": "Ada", "relation": "knows"} -> ["Ada", "knows", "Bo"]

    Of an object those that _TRIPLE_KEYS names, if they are three, else all in their order; [] for
    any other value.
    """
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return []
    parts_by_key = [value[name] for name in _TRIPLE_KEYS if name in value]
    if len(parts_by_key) == 3:
        return parts_by_key
    return list(value.values())


def _as_facts(rows: Iterable[Sequence[str]]) -> list[Fact]:
    """Rows [subject, relation, object] as tuples; the cache of an index gives them back as
    lists."""
    return [(subject, relation, object_) for subject, relation, object_ in rows]


def passage_ranks(
    index: Index,
    fact_similarity: np.ndarray,
    chosen_facts: Sequence[int],
    passage_similarity: np.ndarray,
    config: HippoRAG.Config,
) -> np.ndarray:
    """Rank passages by PageRank from the phrases of the chosen triples and from all passages.

    The walk starts at the `link_k` heaviest phrases, and at all passages with their similarity
    times `passage_weight`. A phrase's weight is the mean, over the chosen triples with it, of the
    triple's similarity divided by the number of passages that have the phrase.

    Args:
        index: The index of HippoRAG.
        fact_similarity: How well each triple fits the question, scaled to 0 to 1, [triples].
        chosen_facts: The numbers of the triples that the model chose.
        passage_similarity: How similar each passage is to the question, scaled to 0 to 1,
            [passages].
        config: The method's settings.

    Returns:
        The rank of each passage, [passages].
    """
    facts = _as_facts(index["facts"])
    phrases = _phrases(facts)
    node_of_phrase = {phrase: node for node, phrase in enumerate(phrases)}
    graph = _build_graph(index, facts, node_of_phrase)
    weights_of_nodes: dict[int, list[float]] = defaultdict(list)
    for fact in chosen_facts:
        subject, _, object_ = facts[fact]
        for node in (node_of_phrase[subject], node_of_phrase[object_]):
            n_passages = len(graph.passages_of_phrase[node])
            weights_of_nodes[node].append(float(fact_similarity[fact]) / n_passages)
    start_weights = _heaviest(weights_of_nodes, config.link_k)
    first_passage_node = len(phrases)  # the nodes of passages follow those of phrases
    for passage, similarity in enumerate(passage_similarity):
        start_weights[first_passage_node + passage] = config.passage_weight * float(similarity)
    n_nodes = first_passage_node + len(index["of"])
    ranks = page_rank(n_nodes, graph.edge_weights, start_weights, config.damping)
    return ranks[first_passage_node:]


def _heaviest(weights_of_nodes: Mapping[int, Sequence[float]], k: int) -> dict[int, float]:
    """Node -> the mean of its weights, of the `k` nodes for which that is greatest, these first.

    {3: [0.2, 0.4], 5: [0.9], 6: [0.1]}, 2 -> {5: 0.9, 3: 0.3}
    """
    mean_weights = {node: sum(weights) / len(weights) for node, weights in weights_of_nodes.items()}
    heaviest_first = sorted(mean_weights.items(), key=lambda item: -item[1])
    return dict(heaviest_first[:k])


@dataclass(frozen=True)
class _Graph:
    """The graph of phrases and passages; passages are numbered after the phrases.

    Attributes:
        edge_weights: (node, node) -> weight; an edge's weight is the sum of both directions.
        passages_of_phrase: Phrase -> the passages that have it.
    """

    edge_weights: dict[tuple[int, int], float]
    passages_of_phrase: dict[int, set[int]]


def _build_graph(index: Index, facts: Sequence[Fact], node_of_phrase: dict[str, int]) -> _Graph:
    """Build the graph of phrases and passages: phrases joined by triples, each passage with its
    phrases, and similar phrases.

    The similarity of two phrases takes the place of how often triples join them, as in the released
    code. A phrase is not joined with itself.

    Args:
        index: The index of HippoRAG: "of" has for each passage the numbers of its triples,
            "synonyms" [phrase, phrase, cosine] of similar phrases by their numbers.
        facts: The triples of the index, as tuples.
        node_of_phrase: Phrase -> its number in the graph.
    """
    edge_weights: dict[tuple[int, int], float] = defaultdict(float)
    passages_of_phrase: dict[int, set[int]] = defaultdict(set)
    for passage, facts_of_passage in enumerate(index["of"]):
        passage_node = len(node_of_phrase) + passage
        for number in facts_of_passage:
            subject, _, object_ = facts[number]
            subject_node = node_of_phrase[subject]
            object_node = node_of_phrase[object_]
            edge_weights[subject_node, object_node] += 1
            edge_weights[object_node, subject_node] += 1
            for phrase_node in (subject_node, object_node):
                passages_of_phrase[phrase_node].add(passage)
                edge_weights[phrase_node, passage_node] = 1.0
    for first_node, second_node, cosine in index["synonyms"]:
        edge_weights[int(first_node), int(second_node)] = float(cosine)
    without_loops = {
        (first_node, second_node): weight
        for (first_node, second_node), weight in edge_weights.items()
        if first_node != second_node
    }
    return _Graph(without_loops, passages_of_phrase)


def _phrases(facts: Sequence[Fact]) -> list[str]:
    """The distinct subjects and objects of facts, in the order in which they first occur."""
    phrases: dict[str, None] = {}
    for subject, _, object_ in facts:
        phrases[subject] = None
        phrases[object_] = None
    return list(phrases)


def _similar_phrases(phrases: Sequence[str], min_cosine: float, tools: Tools) -> list[list[float]]:
    """Find the pairs of similar phrases.

    Args:
        phrases: All phrases; one of fewer than 3 letters or digits has no pair of its own.
        min_cosine: The least cosine.
        tools: The engine's tools.

    Returns:
        [number of a phrase, of another, cosine], at most MAX_SYNONYMS of a phrase, the most similar
        ones.
    """
    vectors = tools.encoder().encode(phrases, "passage")
    # Cosine for every encoder: the threshold means nothing for raw products.
    vectors = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    pairs: list[list[float]] = []
    for number, phrase in enumerate(phrases):
        if sum(map(str.isalnum, phrase)) < 3:
            continue
        cosines = vectors @ vectors[number]
        similar = [
            other
            for other in best_first(cosines)
            if other != number and cosines[other] >= min_cosine
        ]
        pairs += [[number, other, float(cosines[other])] for other in similar[:MAX_SYNONYMS]]
    return pairs


def min_max(scores: np.ndarray) -> np.ndarray:
    """The scores moved to a scale of 0 to 1: [2, 4, 3] -> [0, 1, 0.5]; all 1 where all are
    equal."""
    if not len(scores) or scores.max() == scores.min():
        return np.ones(len(scores))
    score_range = scores.max() - scores.min()
    return np.asarray((scores - scores.min()) / score_range, dtype=float)
