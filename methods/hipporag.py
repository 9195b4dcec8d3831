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

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

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
    "one of the listed "
    "entities, better two. Write names in place of pronouns.\n\nText:\n{text}\n\nThe text ends "
    "here. Entities: "
    '{entities}\n\nReply with a JSON list of triples alone: [["subject", "relation", "object"]]',
)
FILTER = Prompt(
    "filter",
    "Below are facts that may help to answer a question, at once or by a further step. Choose "
    "those that do, {most} at "
    "most, or none.\n\nQuestion: {question}\n\nFacts:{facts}\n\nReply in this form:\nFacts: "
    "numbers of the facts",
)
FACT = Prompt("filter, one fact", "\n{number}. {fact}", first=False)

FILTER_TOKENS = 512  # of the reply that names facts, as in the released code
SYNONYMS = 100  # of a phrase at most, likewise
Fact = tuple[str, str, str]
_PARTS = (
    "subject",
    "relation",
    "predicate",
    "object",
)  # names of a triple's parts in an object, in any order
T = TypeVar("T")


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
        """Passages, distinct triples, the triples of each passage, similar phrases, vectors of
        triples and passages."""
        config, model = self.config, tools.model("builder")
        spans = passage_chunks(document, config.chunk_tokens, model)
        texts = [document.text[a:b].strip() for a, b in spans]

        def asked(
            prompt: Prompt, parse: Callable[[str], list[T] | None], **values: list[str]
        ) -> list[T]:
            pieces = prompt.of(config).fill(**values)
            retry = Retry(retries=0, window=config.window)
            room = window_of(config.window, model) - prompt_tokens(pieces, model)
            return (
                ask_parsed(
                    model, pieces, max(1, min(config.reply_tokens, room)), parse, retry
                ).found
                or []
            )

        def triples(number: int) -> list[Fact]:
            """The triples of a passage, in small letters; [] where the reply has none. What is cut
            off is left out."""
            names = asked(ENTITIES, parse_list, text=[texts[number]])
            entities = ", ".join(dict.fromkeys(names)) or "none"
            return asked(TRIPLES, triples_in, text=[texts[number]], entities=[entities])

        of_passages = [
            [(s, r, o) for s, r, o in of_passage]
            for of_passage in keep_each(triples, len(texts), "passage", tools)
        ]
        facts = list(dict.fromkeys(fact for of_passage in of_passages for fact in of_passage))
        number = {fact: i for i, fact in enumerate(facts)}
        encoder = tools.encoder()
        return {
            "passages": [list(span) for span in spans],
            "facts": [list(fact) for fact in facts],
            "of": [[number[fact] for fact in of_passage] for of_passage in of_passages],
            "synonyms": _similar_phrases(_phrases(facts), self.config.synonyms, tools),
            "fact_vectors": encoder.encode([str(fact) for fact in facts], "passage"),
            "passage_vectors": encoder.encode(texts, "passage"),
        }

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Link the question to triples, rank the passages, read the best."""
        (document,), (index,) = documents, indexes
        config, encoder, model = self.config, tools.encoder(), tools.model()
        with tools.phase("search"):
            (query,) = encoder.encode([question.text], "query")
            similarity = _min_max(encoder.similarity(query, np.asarray(index["passage_vectors"])))
            fit = _min_max(encoder.similarity(query, np.asarray(index["fact_vectors"])))
            kept, step = self._keep_triples(question, index, fit, tools)
            scores = passage_ranks(index, fit, kept, similarity, config) if kept else similarity
        best, flops = best_first(scores)[: config.k], tools.meter.flops()
        spans = [(int(a), int(b)) for a, b in index["passages"]]
        texts = [document.text[a:b].strip() for a, b in spans]
        request = reading.Reading(tools.task, config.window, config)
        text, count = reading.ask_fitting(question, [texts[i] for i in best], tools, request)
        best = best[:count]
        shown = shown_spans(document, [spans[i] for i in best])
        name = "pagerank" if kept else "similarity"
        steps = [
            Step(
                "read",
                i,
                scores={name: float(scores[i])},
                tokens=model.count(texts[i]),
                flops=flops,
                shown=place,
            )
            for i, place in zip(best, shown, strict=True)
        ]
        reason = f"{len(kept)} triples kept" if kept else "no triple kept: ranked by similarity"
        return Answer(text, shown, reason, (step, *steps))

    def _keep_triples(
        self, question: Question, index: Index, fit: np.ndarray, tools: Tools
    ) -> tuple[list[int], Step]:
        """The numbers of the triples that the model keeps of the `link_k` best, and the step; fit:
        scores [triples]."""
        config, model = self.config, tools.model("searcher")
        candidates = best_first(fit)[: config.link_k]
        if not candidates:
            return [], Step("filter", note="the index has no triple")
        facts = [" | ".join(index["facts"][i]) for i in candidates]
        line = FACT.of(config)
        listed = [
            piece
            for n, fact in enumerate(facts, 1)
            for piece in line.fill(number=str(n), fact=[fact])
        ]
        pieces = FILTER.of(config).fill(
            most=str(config.link_k), question=[reading.question_text(question)], facts=listed
        )
        retry = Retry(retries=0, window=config.window)
        response = ask_parsed(
            model, pieces, FILTER_TOKENS, lambda reply: numbers_in(reply, "Facts"), retry
        )
        kept = [candidates[n - 1] for n in response.found or () if 1 <= n <= len(candidates)]
        verdicts = [
            f"{'kept' if i in kept else 'dropped'}: {fact}"
            for i, fact in zip(candidates, facts, strict=True)
        ]
        scores = {"candidates": float(len(candidates)), "kept": float(len(kept))}
        note = "; ".join([*response.notes, *verdicts])
        return kept, Step(
            "filter", scores=scores, tokens=response.tokens, flops=tools.meter.flops(), note=note
        )


def triples_in(reply: str) -> list[Fact] | None:
    """The triples of a reply, folded as phrases, none twice: all lists and objects of three strings
    or numbers.

    Of an object those that _PARTS names, else all in their order. [] for an empty
    list, None for a reply without either.
    """
    values = values_in(reply)
    facts: list[Fact] = []
    for value in values:
        if isinstance(value, dict):
            named = [value[name] for name in _PARTS if name in value]
            value = named if len(named) == 3 else list(value.values())
        if len(value) == 3 and all(isinstance(part, (str, int, float)) for part in value):
            subject, relation, object_ = (as_phrase(str(part)) for part in value)
            facts.append((subject, relation, object_))
    if not facts and [] not in values:
        return None
    return list(dict.fromkeys(fact for fact in facts if all(fact)))


def passage_ranks(
    index: Index,
    fit: np.ndarray,
    kept: Sequence[int],
    similarity: np.ndarray,
    config: HippoRAG.Config,
) -> np.ndarray:
    """PageRank [passages] from the phrases of the triples `kept` (numbers) and from all passages;
    index: of HippoRAG.

    fit [triples] and similarity [passages] are scaled to 0 to 1. A phrase's weight is the mean of
    its kept triples', each divided by the number of passages that have the phrase; the `link_k`
    heaviest phrases start the walk.
    """
    import networkx

    facts = [(str(s), str(r), str(o)) for s, r, o in index["facts"]]
    phrases = _phrases(facts)
    node = {phrase: i for i, phrase in enumerate(phrases)}
    graph, places = _graph(index, facts, node)
    weights: dict[int, list[float]] = defaultdict(list)
    for fact in kept:
        for phrase in (facts[fact][0], facts[fact][2]):
            weights[node[phrase]].append(float(fit[fact]) / len(places[node[phrase]]))
    means = {phrase: sum(values) / len(values) for phrase, values in weights.items()}
    starts = dict(sorted(means.items(), key=lambda item: -item[1])[: config.link_k])
    starts |= {
        len(phrases) + i: config.passage_weight * float(value) for i, value in enumerate(similarity)
    }
    ranks = networkx.pagerank(graph, alpha=config.damping, personalization=starts, weight="weight")
    return np.array([ranks[len(phrases) + i] for i in range(len(similarity))])


def _graph(
    index: Index, facts: Sequence[Fact], node: dict[str, int]
) -> tuple[Any, dict[int, set[int]]]:
    """The networkx graph, and the passages of each phrase; node: phrase -> its number; passages are
    numbered behind.

    An edge's weight is that of both directions. The similarity of two phrases takes the place of
    how often triples join them, as in the released code.
    """
    import networkx

    weights: dict[tuple[int, int], float] = defaultdict(float)
    places: dict[int, set[int]] = defaultdict(set)
    for passage, passage_facts in enumerate(index["of"]):
        for subject, _, object_ in (facts[i] for i in passage_facts):
            a, b = node[subject], node[object_]
            weights[a, b] += 1
            weights[b, a] += 1
            for phrase in (a, b):
                places[phrase].add(passage)
                weights[phrase, len(node) + passage] = 1.0
    weights |= {(int(a), int(b)): float(score) for a, b, score in index["synonyms"]}
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(node) + len(index["of"])))
    for (a, b), weight in weights.items():
        if a != b:
            graph.add_edge(
                a, b, weight=weight + graph.get_edge_data(a, b, {"weight": 0.0})["weight"]
            )
    return graph, places


def _phrases(facts: Sequence[Fact]) -> list[str]:
    """The distinct subjects and objects, in order."""
    return list(
        dict.fromkeys(phrase for subject, _, object_ in facts for phrase in (subject, object_))
    )


def _similar_phrases(phrases: Sequence[str], least: float, tools: Tools) -> list[list[float]]:
    """[number of a phrase, of another, cosine] of all pairs at `least` or above, from 3 letters or
    digits on.

    At most SYNONYMS of a phrase, the most similar ones.
    """
    encoder = tools.encoder()
    vectors = encoder.encode(phrases, "passage")
    # Cosine for every encoder: the threshold means nothing for raw products.
    vectors = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    pairs: list[list[float]] = []
    for i, phrase in enumerate(phrases):
        if sum(map(str.isalnum, phrase)) > 2:
            similarity = vectors @ vectors[i]
            best = [j for j in best_first(similarity) if j != i and similarity[j] >= least]
            pairs += [[i, j, float(similarity[j])] for j in best[:SYNONYMS]]
    return pairs


def _min_max(scores: np.ndarray) -> np.ndarray:
    """The scores on a scale of 0 to 1; all 1 where all are equal."""
    if not len(scores) or scores.max() == scores.min():
        return np.ones(len(scores))
    return np.asarray((scores - scores.min()) / (scores.max() - scores.min()), dtype=float)
