"""LinearRAG (Zhuang et al. 2025, arXiv 2510.10114): passages ranked by a walk over entities and
passages, whose index asks no model for relations.

    index     names that a recogniser finds in each passage; vectors of passages, sentences, names
              graph: passage ── name (its share of the passage's names), passage ── next passage (1)
    question  ──► its names, each by the most similar name of the index         ──► weights of names
              ──► from these by similar sentences to further names, 3 rounds    ──► weights of names
              ──► similarity of every passage, and the names found in it        ──► weights of passages
              ──► personalised PageRank from these weights (networkx) ──► the 5 best passages are read

Where the question has no name, passages are ranked by similarity alone. Source:
docs/methods/retrieval.md#linearrag.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from pydantic import field_validator

from harness.entities.recogniser import (
    check_recogniser_name,
    install_problem,
    load_recogniser,
    recogniser_packages,
)
from harness.errors import Missing
from harness.method import Index, Indexes, MethodConfig, Needs, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.types import Answer, Document, Question, Step
from methods.chunks import Span, shown_spans, spans_as_lists, texts_at
from methods.hipporag import min_max
from methods.packing import passage_chunks, sentences
from methods.page_rank import page_rank
from methods.reading import Reading, ReadingMethod, ask_fitting
from methods.retrieval import best_first


class LinearRAGConfig(MethodConfig):
    """Settings of LinearRAG."""

    # Graph: a change builds a new index.
    chunk_tokens: int = index_setting(
        500, gt=0, help="Most tokens of a passage; a longer paragraph is cut."
    )
    recogniser: str = index_setting(
        "rules", help='What finds names: "rules", "spacy", "spacy:en_core_web_trf", "stanza".'
    )
    # Search
    k: int = setting(5, gt=0, help="Passages that are read.")
    rounds: int = setting(3, gt=0, help="Rounds of names, those of the question included.")
    least: float = setting(0.4, help="Least weight of a name that goes on.")
    sentences: int = setting(3, gt=0, help="Sentences of a name that lead to further names.")
    passage_ratio: float = setting(
        2, ge=0, help="Weight of a passage's similarity beside the names found in it."
    )
    passage_weight: float = setting(
        0.05, gt=0, help="Weight of passages beside names among the starts of the walk."
    )
    damping: float = setting(0.5, gt=0, lt=1, help="How likely the walk goes on.")
    window: int | None = setting(
        None, gt=0, help="Most tokens of a request, reply included; None = the model's window."
    )

    @field_validator("recogniser")
    @classmethod
    def _check_recogniser(cls, value: str) -> str:
        """Return the name of a recogniser. Raises ValueError for one that does not exist."""
        return check_recogniser_name(value)


@dataclass(frozen=True)
class Activated:
    """A name that the search has reached.

    Attributes:
        weight: The weight of the last way that led to it.
        round: The round of that way, from 1.
    """

    weight: float
    round: int


@dataclass(frozen=True)
class NameGraph:
    """Names, sentences and passages of a document.

    Attributes:
        passages: The texts of the passages.
        names: The distinct names.
        names_of_sentences: The numbers of the names in each sentence.
        names_of_passages: The numbers of the names in each passage.
    """

    passages: Sequence[str]
    names: Sequence[str]
    names_of_sentences: Sequence[Sequence[int]]
    names_of_passages: Sequence[Sequence[int]]

    @cached_property
    def sentences_of_names(self) -> dict[int, list[int]]:
        """Name -> the sentences that have it, all by their numbers."""
        sentences_by_name: dict[int, list[int]] = defaultdict(list)
        for sentence, names in enumerate(self.names_of_sentences):
            for name in names:
                sentences_by_name[name].append(sentence)
        return sentences_by_name

    def activate(
        self,
        similarity_of_seeds: Mapping[int, float],
        sentence_similarity: np.ndarray,
        config: LinearRAGConfig,
    ) -> tuple[np.ndarray, dict[int, Activated]]:
        """Go from the question's names to further ones, by sentences that fit the question.

        In each round the names reached in the round before lead, by the `sentences` best of their
        sentences, to the other names in these. A sentence leads on once. The weight of a way is the
        product of the similarities of its seed and its sentences; it ends where that falls below
        `least`. A name's weight is the sum of all ways to it.

        Args:
            similarity_of_seeds: Number of a name of the question -> its similarity.
            sentence_similarity: How similar each sentence is to the question, [sentences].
            config: The method's settings.

        Returns:
            The weight of each name, [names]; and number -> Activated for the names that were
            reached.
        """
        weights = np.zeros(len(self.names))
        reached: dict[int, Activated] = {}
        for name, weight in similarity_of_seeds.items():
            weights[name] = weight
            reached[name] = Activated(weight, round=1)
        used_sentences: set[int] = set()
        newly_reached = dict(reached)
        for round_number in range(2, config.rounds + 1):
            reached_in_round: dict[int, Activated] = {}
            for name, activated in newly_reached.items():
                if activated.weight < config.least:
                    continue
                for sentence in self._best_sentences(
                    name, sentence_similarity, used_sentences, config.sentences
                ):
                    used_sentences.add(sentence)
                    weight = activated.weight * float(sentence_similarity[sentence])
                    if weight < config.least:
                        continue
                    for other_name in self.names_of_sentences[sentence]:
                        weights[other_name] += weight
                        reached_in_round[other_name] = Activated(weight, round=round_number)
            reached.update(reached_in_round)
            newly_reached = reached_in_round
        return weights, reached

    def _best_sentences(
        self, name: int, sentence_similarity: np.ndarray, used_sentences: set[int], n_sentences: int
    ) -> list[int]:
        """The numbers of the sentences with a name that fit the question best, the best first.

        Args:
            name: The number of the name.
            sentence_similarity: How similar each sentence is to the question, [sentences].
            used_sentences: Sentences that are left out.
            n_sentences: How many are wanted.
        """
        unused_sentences = [
            sentence for sentence in self.sentences_of_names[name] if sentence not in used_sentences
        ]
        unused_sentences.sort(key=lambda sentence: -sentence_similarity[sentence])
        return unused_sentences[:n_sentences]

    def passage_start_weights(
        self,
        passage_similarity: np.ndarray,
        reached: Mapping[int, Activated],
        config: LinearRAGConfig,
    ) -> np.ndarray:
        """The weight of each passage among the starts of the walk, [passages].

        passage_weight * (passage_ratio * similarity + ln(1 + bonus)), where the similarity is
        scaled to 0 to 1, and the bonus is the sum, over the names that were reached, of
        weight * ln(1 + mentions in the passage) / round; a sum below 0 counts as 0.

        Args:
            passage_similarity: How similar each passage is to the question, [passages].
            reached: Number -> Activated for the names that the search has reached.
            config: The method's settings.
        """
        scaled_similarity = min_max(passage_similarity)
        start_weights = np.zeros(len(self.passages))
        for number, passage in enumerate(self.passages):
            passage_in_small_letters = passage.lower()
            bonus = 0.0
            for name, activated in reached.items():
                mentions = passage_in_small_letters.count(self.names[name].lower())
                bonus += activated.weight * math.log1p(mentions) / activated.round
            weight = config.passage_ratio * scaled_similarity[number] + math.log1p(max(bonus, 0.0))
            start_weights[number] = weight * config.passage_weight
        return start_weights

    def rank_by_walk(
        self, name_weights: np.ndarray, passage_weights: np.ndarray, damping: float
    ) -> np.ndarray:
        """Rank the passages by personalised PageRank over names and passages.

        Args:
            name_weights: The weight of each name among the starts, [names].
            passage_weights: The weight of each passage among the starts, [passages].
            damping: How likely the walk goes on.

        Returns:
            The rank of each passage, [passages].
        """
        start_weights = np.concatenate([name_weights, passage_weights]).clip(min=0)
        n_nodes = len(self.names) + len(self.passages)
        start_weight_of_node = dict(enumerate(start_weights.tolist()))
        ranks = page_rank(n_nodes, self._edge_weights(), start_weight_of_node, damping)
        return ranks[len(self.names) :]  # those of the passages

    def _edge_weights(self) -> dict[tuple[int, int], float]:
        """(node, node) -> weight of the edge between them, for the walk.

        Names are the first nodes, then come the passages. A passage is joined to each of its names
        by the name's share of all its mentions of names, and to the next passage with weight 1.
        """
        weights: dict[tuple[int, int], float] = {}
        for passage, names in enumerate(self.names_of_passages):
            node = len(self.names) + passage
            mentions_of_name: dict[int, int] = {}
            for name in names:
                mentions_of_name[name] = self.passages[passage].count(self.names[name])
            # A name that a line break divides is not found again.
            all_mentions = max(1, sum(mentions_of_name.values()))
            for name, mentions in mentions_of_name.items():
                weights[node, name] = mentions / all_mentions
            if passage:
                weights[node - 1, node] = 1.0
        return weights


def _has_name_as_words(sentence: str, name: str) -> bool:
    """Whether a sentence has a name as whole words: "Ann left." has "Ann", "Anna left." has not."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sentence) is not None


def _passage_texts(document: Document, spans: Sequence[Span]) -> list[str]:
    """The texts at `spans` of a document, without white space around them."""
    return [text.strip() for text in texts_at(document.text, spans)]


@dataclass
class _FoundNames:
    """The names that were found in a document, passage by passage.

    Attributes:
        number_of_name: Name -> its number, in order of finding.
        names_of_sentence: Sentence -> the numbers of its names; only sentences that have some.
        names_of_passages: The numbers of the names of each passage.
    """

    number_of_name: dict[str, int] = field(default_factory=dict)
    names_of_sentence: dict[str, list[int]] = field(default_factory=dict)
    names_of_passages: list[list[int]] = field(default_factory=list)

    def add_passage(self, text: str, names: Sequence[str]) -> None:
        """Add a passage: number its new names, and note which of its sentences have which names.

        Args:
            text: The passage.
            names: The names that were found in it.
        """
        for name in names:
            self.number_of_name.setdefault(name, len(self.number_of_name))
        self.names_of_passages.append([self.number_of_name[name] for name in names])
        for sentence in texts_at(text, sentences(text)):
            names_in_sentence = [
                self.number_of_name[name] for name in names if _has_name_as_words(sentence, name)
            ]
            if names_in_sentence:
                self.names_of_sentence[sentence.strip()] = names_in_sentence


def _cosines(vectors: object, query: np.ndarray) -> np.ndarray:
    """The cosine of each row of `vectors` [rows, width] with `query` [width]; returns [rows]."""
    rows = np.asarray(vectors, dtype=float).reshape(-1, len(query))
    products_of_lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    # A vector of zeros has the cosine 0.
    divisors = np.where(products_of_lengths == 0, 1, products_of_lengths)
    return np.asarray(rows @ query / divisors)


@dataclass(frozen=True)
class _RankedPassages:
    """The passages of a document, scored for a question.

    Attributes:
        scores: The score of each passage, [passages].
        score_name: What the scores are: "similarity" or "pagerank".
        step: The step of the trace with the names that were reached.
    """

    scores: np.ndarray
    score_name: str
    step: Step


class LinearRAG(ReadingMethod):
    """Passages ranked by PageRank in a graph of names and passages, which no model writes."""

    Config = LinearRAGConfig
    summary = "names and passages in one graph, without relations (LinearRAG)"
    traits = Traits(draws=False)
    needs: ClassVar[Needs] = {"reader": frozenset()}
    encoders = ("encoder",)
    scope = "document"
    index_roles = ("reader", "encoder")

    def index_packages(self) -> tuple[str, ...]:
        """The packages of the tool that finds names, on whose versions the index depends; () for
        the rules."""
        return recogniser_packages(self.config.recogniser)

    def problems(self) -> list[str]:
        """No sentence, as no setting is wrong by itself; checks that the tool that finds names is
        installed.

        Raises:
            Missing: It is not.
        """
        problem = install_problem(self.config.recogniser)
        if problem:
            raise Missing(problem, f"the named-entity tool {self.config.recogniser}")
        return []

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document.

        Returns:
            "passages": [start, end] of each; "names": the distinct names; "of_sentences",
                "of_passages": for each sentence with a name, and each passage, the numbers of its
                names; "passage_vectors", "sentence_vectors", "name_vectors": the vectors of the
                three [texts, width].
        """
        spans = passage_chunks(document, self.config.chunk_tokens, tools.model())
        texts = _passage_texts(document, spans)
        found_names = _FoundNames()
        for text in texts:
            found_names.add_passage(text, self._find_names(text))
        encoder = tools.encoder()
        return {
            "passages": spans_as_lists(spans),
            "names": list(found_names.number_of_name),
            "of_sentences": list(found_names.names_of_sentence.values()),
            "of_passages": found_names.names_of_passages,
            "passage_vectors": encoder.encode(texts, "passage"),
            "sentence_vectors": encoder.encode(list(found_names.names_of_sentence), "passage"),
            "name_vectors": encoder.encode(list(found_names.number_of_name), "passage"),
        }

    def _find_names(self, text: str) -> list[str]:
        """The names that the chosen recogniser finds in a text."""
        return load_recogniser(self.config.recogniser).names(text)

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
        """Rank the passages by the walk from the question's names, and answer from the best `k`, as
        many as fit. Each that is shown has a step "read" with its score."""
        (document,) = documents
        (index,) = indexes
        config = self.config
        spans = [(int(start), int(end)) for start, end in index["passages"]]
        texts = _passage_texts(document, spans)
        graph = NameGraph(
            passages=texts,
            names=index["names"],
            names_of_sentences=index["of_sentences"],
            names_of_passages=index["of_passages"],
        )
        with tools.phase("search"):
            ranked = self._rank_passages(question, index, graph, tools)
        best_passages = best_first(ranked.scores)[: config.k]
        flops = tools.meter.flops()
        request = Reading(tools.task, window=config.window, config=config)
        text, shown_count = ask_fitting(
            question, [texts[passage] for passage in best_passages], tools, request
        )
        shown_passages = best_passages[:shown_count]
        shown = shown_spans(document, [spans[passage] for passage in shown_passages])
        steps = [ranked.step]
        for passage, span in zip(shown_passages, shown, strict=True):
            tokens = tools.model().count(texts[passage])
            score = {ranked.score_name: float(ranked.scores[passage])}
            steps.append(
                Step("read", passage, scores=score, tokens=tokens, flops=flops, shown=span)
            )
        return Answer(text, shown, ranked.step.note, tuple(steps))

    def _rank_passages(
        self, question: Question, index: Index, graph: NameGraph, tools: Tools
    ) -> _RankedPassages:
        """Rank the passages by the walk; by similarity alone where question or document has no
        name.

        The walk starts from the name of the document that is most similar to each name of the
        question.

        Args:
            question: The question.
            index: The document's index.
            graph: The graph of its names and passages.
            tools: The engine's tools.
        """
        config = self.config
        names = self._find_names(question.text)
        texts_to_encode = [question.text] + [name.lower() for name in names]
        (question_vector, *name_vectors) = tools.encoder().encode(texts_to_encode, "query")
        passage_similarity = _cosines(index["passage_vectors"], question_vector)
        if not names or not graph.names:
            note = "no name: ranked by similarity"
            step = Step("names", flops=tools.meter.flops(), note=note)
            return _RankedPassages(scores=passage_similarity, score_name="similarity", step=step)
        similarity_of_seeds: dict[int, float] = {}
        for name_vector in name_vectors:
            similarity_of_names = _cosines(index["name_vectors"], name_vector)
            nearest_name = int(similarity_of_names.argmax())
            similarity_of_seeds[nearest_name] = float(similarity_of_names[nearest_name])
        sentence_similarity = _cosines(index["sentence_vectors"], question_vector)
        weights, reached = graph.activate(similarity_of_seeds, sentence_similarity, config)
        passage_weights = graph.passage_start_weights(passage_similarity, reached, config)
        scores = graph.rank_by_walk(weights, passage_weights, config.damping)
        note = f"{len(similarity_of_seeds)} names of the question, {len(reached)} reached"
        weight_by_name: dict[str, float] = {}
        for name in reached:
            weight_by_name[graph.names[name]] = float(weights[name])
        step = Step("names", scores=weight_by_name, flops=tools.meter.flops(), note=note)
        return _RankedPassages(scores=scores, score_name="pagerank", step=step)
