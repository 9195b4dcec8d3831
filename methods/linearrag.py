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
from methods.chunks import Span, shown_spans, stored, texts_at
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
        found: dict[int, list[int]] = defaultdict(list)
        for sentence, names in enumerate(self.names_of_sentences):
            for name in names:
                found[name].append(sentence)
        return found

    def activate(
        self, seeds: Mapping[int, float], similarity: np.ndarray, config: LinearRAGConfig
    ) -> tuple[np.ndarray, dict[int, Activated]]:
        """Go from the question's names to further ones, by sentences that fit the question.

        In each round the names reached in the round before lead, by their best sentences, to the
        other names in these. A sentence leads on once. A name's weight is the sum of all ways to
        it.

        Args:
            seeds: Number of a name of the question -> its similarity.
            similarity: How similar each sentence is to the question, [sentences].
            config: The method's settings.

        Returns:
            The weight of each name, [names]; and number -> Activated for the names that were
            reached.
        """
        weights = np.zeros(len(self.names))
        reached: dict[int, Activated] = {}
        for name, weight in seeds.items():
            weights[name] = weight
            reached[name] = Activated(weight, 1)
        used: set[int] = set()
        current = dict(reached)
        for number in range(2, config.rounds + 1):
            following: dict[int, Activated] = {}
            for name, activated in current.items():
                if activated.weight < config.least:
                    continue
                for sentence in self._best_sentences(name, similarity, used, config.sentences):
                    used.add(sentence)
                    weight = activated.weight * float(similarity[sentence])
                    if weight < config.least:
                        continue
                    for other in self.names_of_sentences[sentence]:
                        weights[other] += weight
                        following[other] = Activated(weight, number)
            reached.update(following)
            current = following
        return weights, reached

    def _best_sentences(
        self, name: int, similarity: np.ndarray, used: set[int], count: int
    ) -> list[int]:
        """The numbers of the sentences with a name that fit the question best, the best first.

        Args:
            name: The number of the name.
            similarity: How similar each sentence is to the question, [sentences].
            used: Sentences that are left out.
            count: How many are wanted.
        """
        free = [sentence for sentence in self.sentences_of_names[name] if sentence not in used]
        free.sort(key=lambda sentence: -similarity[sentence])
        return free[:count]

    def passage_starts(
        self, similarity: np.ndarray, reached: Mapping[int, Activated], config: LinearRAGConfig
    ) -> np.ndarray:
        """The weight of each passage among the starts of the walk, [passages].

        It grows with the passage's similarity, and with how often it has the names that were
        reached.

        Args:
            similarity: How similar each passage is to the question, [passages].
            reached: Number -> Activated for the names that the search has reached.
            config: The method's settings.
        """
        scaled = min_max(similarity)
        starts = np.zeros(len(self.passages))
        for number, passage in enumerate(self.passages):
            lower = passage.lower()
            bonus = 0.0
            for name, activated in reached.items():
                times = lower.count(self.names[name].lower())
                bonus += activated.weight * math.log1p(times) / activated.round
            weight = config.passage_ratio * scaled[number] + math.log1p(max(bonus, 0.0))
            starts[number] = weight * config.passage_weight
        return starts

    def walk(self, names: np.ndarray, passages: np.ndarray, damping: float) -> np.ndarray:
        """Rank the passages by personalised PageRank over names and passages.

        Args:
            names: The weight of each name among the starts, [names].
            passages: The weight of each passage among the starts, [passages].
            damping: How likely the walk goes on.

        Returns:
            The rank of each passage, [passages].
        """
        starts = np.concatenate([names, passages]).clip(min=0)
        n_nodes = len(self.names) + len(self.passages)
        start_of_node = dict(enumerate(starts.tolist()))
        ranks = page_rank(n_nodes, self._weights(), start_of_node, damping)
        return ranks[len(self.names) :]  # those of the passages

    def _weights(self) -> dict[tuple[int, int], float]:
        """(node, node) -> weight of the edge between them, for the walk.

        Names are the first nodes, then come the passages. A passage is joined to each of its names
        by the name's share of all its mentions of names, and to the next passage with weight 1.
        """
        weights: dict[tuple[int, int], float] = {}
        for passage, names in enumerate(self.names_of_passages):
            node = len(self.names) + passage
            times: dict[int, int] = {}
            for name in names:
                times[name] = self.passages[passage].count(self.names[name])
            # A name that a line break divides is not found again.
            total = max(1, sum(times.values()))
            for name, count in times.items():
                weights[node, name] = count / total
            if passage:
                weights[node - 1, node] = 1.0
        return weights


def _has_name(sentence: str, name: str) -> bool:
    """Whether a sentence has a name as whole words: "Ann left." has "Ann", "Anna left." has not."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sentence) is not None


def _passage_texts(document: Document, spans: Sequence[Span]) -> list[str]:
    """The texts at `spans` of a document, without white space around them."""
    return [text.strip() for text in texts_at(document.text, spans)]


@dataclass
class _FoundNames:
    """The names that were found in a document, passage by passage.

    Attributes:
        numbers: Name -> its number, in order of finding.
        of_sentences: Sentence -> the numbers of its names; only sentences that have some.
        of_passages: The numbers of the names of each passage.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    of_sentences: dict[str, list[int]] = field(default_factory=dict)
    of_passages: list[list[int]] = field(default_factory=list)

    def add_passage(self, text: str, names: Sequence[str]) -> None:
        """Add a passage: number its new names, and note which of its sentences have which names.

        Args:
            text: The passage.
            names: The names that were found in it.
        """
        for name in names:
            self.numbers.setdefault(name, len(self.numbers))
        self.of_passages.append([self.numbers[name] for name in names])
        for sentence in texts_at(text, sentences(text)):
            found = [self.numbers[name] for name in names if _has_name(sentence, name)]
            if found:
                self.of_sentences[sentence.strip()] = found


def _cosine(vectors: object, query: np.ndarray) -> np.ndarray:
    """The cosine of each row of `vectors` [rows, width] with `query` [width]; returns [rows]."""
    rows = np.asarray(vectors, dtype=float).reshape(-1, len(query))
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(query)
    divisors = np.where(lengths == 0, 1, lengths)  # a vector of zeros has the cosine 0
    return np.asarray(rows @ query / divisors)


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
        found = _FoundNames()
        for text in texts:
            found.add_passage(text, self._names(text))
        encoder = tools.encoder()
        return {
            "passages": stored(spans),
            "names": list(found.numbers),
            "of_sentences": list(found.of_sentences.values()),
            "of_passages": found.of_passages,
            "passage_vectors": encoder.encode(texts, "passage"),
            "sentence_vectors": encoder.encode(list(found.of_sentences), "passage"),
            "name_vectors": encoder.encode(list(found.numbers), "passage"),
        }

    def _names(self, text: str) -> list[str]:
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
        """Rank the passages by the walk from the question's names, and answer from the best that
        fit."""
        (document,) = documents
        (index,) = indexes
        config = self.config
        spans = [(int(start), int(end)) for start, end in index["passages"]]
        texts = _passage_texts(document, spans)
        graph = NameGraph(texts, index["names"], index["of_sentences"], index["of_passages"])
        with tools.phase("search"):
            scores, score_name, step = self._rank(question, index, graph, tools)
        best = best_first(scores)[: config.k]
        flops = tools.meter.flops()
        request = Reading(tools.task, config.window, config)
        text, count = ask_fitting(question, [texts[i] for i in best], tools, request)
        read = best[:count]
        shown = shown_spans(document, [spans[i] for i in read])
        steps = [step]
        for passage, place in zip(read, shown, strict=True):
            tokens = tools.model().count(texts[passage])
            score = {score_name: float(scores[passage])}
            steps.append(
                Step("read", passage, scores=score, tokens=tokens, flops=flops, shown=place)
            )
        return Answer(text, shown, step.note, tuple(steps))

    def _rank(
        self, question: Question, index: Index, graph: NameGraph, tools: Tools
    ) -> tuple[np.ndarray, str, Step]:
        """Rank the passages by the walk; by similarity alone where question or document has no
        name.

        Args:
            question: The question.
            index: The document's index.
            graph: The graph of its names and passages.
            tools: The engine's tools.

        Returns:
            The score of each passage, [passages]; the score's name, "similarity" or "pagerank"; the
            step of the trace with the names that were reached.
        """
        config = self.config
        names = self._names(question.text)
        encoded = [question.text] + [name.lower() for name in names]
        (query, *name_vectors) = tools.encoder().encode(encoded, "query")
        similarity = _cosine(index["passage_vectors"], query)
        if not names or not graph.names:
            note = "no name: ranked by similarity"
            return similarity, "similarity", Step("names", flops=tools.meter.flops(), note=note)
        seeds: dict[int, float] = {}
        for vector in name_vectors:
            nearest = _cosine(index["name_vectors"], vector)
            best = int(nearest.argmax())
            seeds[best] = float(nearest[best])
        fit = _cosine(index["sentence_vectors"], query)
        weights, reached = graph.activate(seeds, fit, config)
        starts = graph.passage_starts(similarity, reached, config)
        scores = graph.walk(weights, starts, config.damping)
        note = f"{len(seeds)} names of the question, {len(reached)} reached"
        listed: dict[str, float] = {}
        for name in reached:
            listed[graph.names[name]] = float(weights[name])
        step = Step("names", scores=listed, flops=tools.meter.flops(), note=note)
        return scores, "pagerank", step
