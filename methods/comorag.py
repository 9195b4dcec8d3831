"""ComoRAG (Wang et al. 2025, arXiv 2508.10419): a memory that grows by probes until the question can
be answered.

    index     passages as of HippoRAG 2; summaries of clusters of passages; summaries of passages in a row
    question  ──► passages, summaries, episodes ──► "*" (not enough)
              ──► probes: "Who is Toren?" ... ──► passages, summaries, episodes of each
                  ──► a note on each kind for each probe; the notes so far as one finding
              ──► the question over notes and findings ──► "Kelford", or "*" and the next round

Source: docs/methods/retrieval.md#comorag.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import log2
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from harness.method import Index, Indexes, MethodConfig, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.models import MeteredModel
from harness.prompts import Pieces, Prompt, feed, prompt_tokens
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.chunks import Span, texts_at
from methods.extraction import ExtractingMethod, make_each_and_store
from methods.hipporag import ENTITIES, FACT, FILTER, TRIPLES, HippoRAG
from methods.raptor.config import RaptorConfig
from methods.raptor.tree import build_tree
from methods.retrieval import best_first, similarity_to
from methods.retry import Retry, ask_parsed, fit_lines, require_room
from methods.summary import DETAILED, summarise
from methods.values import strings_in, values_in

EPISODE = Prompt(
    "summary in order of time",
    "Summarise the text below in the order in which things happen. Keep important events, turning "
    "points and persons, and what led to what.\n\nText:\n{text}\n\nThe text ends here. Write the "
    "summary.\n\nSummary:",
)
NOTE = Prompt(
    "note on what was found",
    "Below is what a search found. Note what of it helps with a question: up to five findings, the "
    "most direct one first, each on a line that begins with 'Key finding:'.\n\nQuestion: "
    "{question}\n\nFound:\n{text}\n\nThe text ends here. Findings:",
)
PROBES = Prompt(
    "probes",
    "A question could not be answered from what was found so far. Write up to three short queries "
    "that look for what is missing: first for persons, things, places and events that no earlier "
    "query was about. They must differ from each other and from the earlier queries.\n\nQuestion: "
    "{question}\n\nFound so far:\n{text}\n\nEarlier queries:\n{earlier}\n\nReply with JSON alone: "
    '{"probe_1": "query", "probe_2": "query", "probe_3": "query"}',
)
JOIN_NOTES = Prompt(
    "join notes",
    "Join the notes below to one text that says all that helps with a question.\n\nNotes:\n{text}"
    "\n\nThe notes end here.\n\nQuestion: {question}\n\nText:",
)
ANSWER_OR_NOT_YET = Prompt(
    "answer or not yet",
    "Answer a question from what was found in a text. {instruction}\n\n{text}\n\nQuestion: "
    "{question}\n\nFirst list the key facts in a few short lines. Then write a last line that "
    "begins with '### Final Answer' and gives the answer, as short as possible; where what was "
    "found does not give it, write *.",
    answers=True,
)
NOT_YET = "*"
MIN_CLUSTER_POSTERIOR = 0.01
"""A passage is in each cluster of RAPTOR's tree to which it belongs with a higher posterior
(docs/methods/retrieval.md); RAPTOR itself has 0.1."""
_FINAL = re.compile(r"### Final Answer\W*?[:.]?\s*(.*)", re.DOTALL)
Kind = Literal["passages", "summaries", "episodes", "finding"]
HEADING_OF_KIND: dict[Kind, str] = {
    "passages": "### Detail Chunks",
    "summaries": "### Semantic Summary",
    "episodes": "### Timeline Summary",
    "finding": "### Historical Information",
}


def passages_per_episode(n_passages: int) -> int:
    """How many passages in a row one summary covers in a document of so many passages; the steps
    and the formula are the released code's."""
    for max_passages, passages_in_a_row in ((5, 2), (20, 3), (50, 5), (100, 8), (200, 10)):
        if n_passages <= max_passages:
            return passages_in_a_row
    return min(20, max(10, int(log2(n_passages) * 2)))


@dataclass(frozen=True)
class FoundText:
    """A passage, or a summary, and the spans of the document that it stands for."""

    kind: Kind
    number: int
    text: str
    sources: tuple[Span, ...]


@dataclass(frozen=True)
class MemoryNode:
    """A part of the memory.

    Attributes:
        probe: The query that led to it.
        kind: The kind of the pieces.
        found_texts: What was found.
        note: What the model noted of them.
    """

    probe: str
    kind: Kind
    found_texts: tuple[FoundText, ...]
    note: str

    @property
    def text_for_vector(self) -> str:
        """The text that is compared with the question; of a finding, its note alone, as in the
        released code."""
        if self.kind == "finding":
            return self.note
        return f"{self.probe} {self.note}"


def _is_finding(node: MemoryNode) -> bool:
    """Whether a node is the finding of a probe, joined from its notes."""
    return node.kind == "finding"


@dataclass
class Memory:
    """What one question has found.

    Attributes:
        earlier_nodes: Nodes of the rounds before.
        new_nodes: Nodes of this round.
        steps: The steps of the trace so far.
    """

    earlier_nodes: list[MemoryNode] = field(default_factory=list)
    new_nodes: list[MemoryNode] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def numbers_found_before(self, kind: Kind) -> set[int]:
        """The numbers of all pieces of one kind that the rounds before this one have found."""
        numbers: set[int] = set()
        for node in self.earlier_nodes:
            if node.kind == kind:
                numbers.update(found.number for found in node.found_texts)
        return numbers

    def new_notes(self, kind: Kind) -> str:
        """The notes of this round on pieces of one kind, a line each."""
        return "\n".join(node.note for node in self.new_nodes if node.kind == kind)

    def new_texts(self, kind: Kind) -> str:
        """The texts of this round's pieces of one kind, joined by line breaks."""
        texts: list[str] = []
        for node in self.new_nodes:
            if node.kind == kind:
                texts += [found.text for found in node.found_texts]
        return "\n".join(texts)

    def findings(self) -> str:
        r"""All findings with the probes that led to them, those of this round first, as text.

        "probe : Who is Toren?\nFinding : A writer in Kelford."
        """
        findings = filter(_is_finding, [*self.new_nodes, *self.earlier_nodes])
        return "\n".join(f"probe : {node.probe}\nFinding : {node.note}" for node in findings)

    def earlier_probes(self) -> list[str]:
        """The queries of all rounds before this one, each once."""
        return list(dict.fromkeys(node.probe for node in self.earlier_nodes))


def final_answer(reply: str) -> str:
    r"""What follows "### Final Answer" in a reply, or the whole reply where it does not have these
    words.

        "Facts ...\n### Final Answer: Kelford" -> "Kelford"
    """
    match = _FINAL.search(reply)
    text = reply
    if match:
        text = match.group(1)
    return text.strip()


def probes_in(reply: str) -> list[str] | None:
    """The queries of a reply, at most three: the texts in its first list or object that has any;
    None where it has none.

    '{"probe_1": "Who is Toren?", "probe_2": ""}' -> ["Who is Toren?"]
    """
    for list_or_object in values_in(reply):
        stripped_texts = [text.strip() for text in strings_in(list_or_object)]
        probes = [text for text in stripped_texts if text]
        if probes:
            return probes[:3]
    return None


class StoredSummary(NamedTuple):
    """A summary or an episode as the index stores it: its text, and the spans that it is of."""

    text: str
    spans: Sequence[Span]


class ComoRAG(ExtractingMethod):
    """Rounds of probes over passages, summaries and episodes, with a memory of notes."""

    class Config(MethodConfig):
        """Settings of this method."""

        # Index
        chunk_tokens: int = index_setting(512, gt=0, help="Most tokens of a passage.")
        reply_tokens: int = index_setting(
            2048, gt=0, help="Most tokens of a list of entities or triples."
        )
        synonyms: float = index_setting(
            0.8, gt=0, le=1, help="Least cosine of two phrases that an edge joins."
        )
        summary_tokens: int = index_setting(500, gt=0, help="Most tokens of a summary.")
        reduction: Literal["umap", "pca"] = index_setting(
            "umap", help="How vectors are reduced before passages are clustered."
        )
        # Search
        rounds: int = setting(5, ge=0, help="Most rounds of probes.")
        k: int = setting(50, gt=0, help="Pieces of each kind that a query finds.")
        budget: int = setting(2000, gt=0, help="Tokens of the pieces of a kind, for a query.")
        link_k: int = setting(5, gt=0, help="Triples shown to the model for a query.")
        passage_weight: float = setting(
            0.005, gt=0, help="Weight of a passage's similarity among the starts of the walk."
        )
        note_tokens: int = setting(500, gt=0, help="Most tokens of a note, and of probes.")
        finding_tokens: int = setting(1000, gt=0, help="Most tokens of a finding.")
        answer_tokens: int = setting(2048, gt=0, help="Most tokens of a reply to the question.")

    summary = "rounds of probes with a memory of notes, over passages and two kinds of summaries"
    traits = Traits(draws=False)
    own_prompts: ClassVar[Sequence[Prompt]] = (
        ENTITIES,
        TRIPLES,
        FILTER,
        FACT,
        DETAILED,
        EPISODE,
        NOTE,
        PROBES,
        JOIN_NOTES,
        ANSWER_OR_NOT_YET,
    )

    def templates(self) -> Sequence[Prompt]:
        """The prompts that it sends; it does not use the shared reading prompts."""
        return self.own_prompts

    def index_packages(self) -> tuple[str, ...]:
        """The packages that reduce and cluster vectors; the index depends on their versions, as
        another one may build other summaries."""
        if self.config.reduction == "umap":
            return "scikit-learn", "umap-learn"
        return ("scikit-learn",)

    def passage_ranker(self) -> HippoRAG:
        """A HippoRAG method with these settings, which ranks the passages."""
        config = self.config
        search_settings = {"link_k": config.link_k, "passage_weight": config.passage_weight}
        return HippoRAG(self._index_config().model_copy(update=search_settings))

    def _index_config(self) -> HippoRAG.Config:
        """The settings of HippoRAG that its index depends on, without those of its search, which
        `index` may not read."""
        config = self.config
        return HippoRAG.Config(
            prompts=config.prompts,
            chunk_tokens=config.chunk_tokens,
            reply_tokens=config.reply_tokens,
            synonyms=config.synonyms,
        )

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document: that of HippoRAG, and summaries of clusters (by RAPTOR's tree)
        and of passages in a row.

        Returns:
            HippoRAG's keys; "summaries" and "episodes", a StoredSummary (text, spans) each;
            "summary_vectors" and "episode_vectors", the vectors of their texts [texts, width].
        """
        index = HippoRAG(self._index_config()).index(document, tools)
        config = self.config
        tree, vectors = build_tree(
            document,
            RaptorConfig(
                prompts=config.prompts,
                chunk_tokens=config.chunk_tokens,
                summary_tokens=config.summary_tokens,
                reduction=config.reduction,
                threshold=MIN_CLUSTER_POSTERIOR,
            ),
            tools,
        )
        # Level 1 of RAPTOR's tree is the chunks, the levels above it are summaries of clusters.
        summary_nodes = [node for node, level in enumerate(tree.level) if level > 1]
        summaries = [
            StoredSummary(tree.text[node], tree.source_spans(node)) for node in summary_nodes
        ]
        episodes = self._write_episodes(document, index["passages"], tools)
        return {
            **index,
            "summaries": summaries,
            "summary_vectors": vectors[summary_nodes],
            "episodes": episodes,
            "episode_vectors": tools.encoder().encode(
                [episode.text for episode in episodes], "passage"
            ),
        }

    def _write_episodes(
        self, document: Document, passages: Sequence[Span], tools: Tools
    ) -> list[StoredSummary]:
        """Summarise each group of neighbouring passages.

        Each summary is stored as soon as it is written, so that an interrupted build resumes.

        Args:
            document: The document.
            passages: The spans of its passages, in order.
            tools: The engine's tools; store the summaries.

        Returns:
            A summary for each group; a group of one passage has that passage's text.
        """
        group_size = passages_per_episode(len(passages))
        groups = [
            passages[start : start + group_size] for start in range(0, len(passages), group_size)
        ]

        def write(number: int) -> StoredSummary:
            """Summarise the group of passages of this number; a single passage is its own
            summary."""
            texts = list(map(str.strip, texts_at(document.text, groups[number])))
            if len(texts) == 1:
                return StoredSummary(texts[0], groups[number])
            prompt = EPISODE.with_replacements(self.config)
            text = summarise(texts, tools.model("builder"), self.config.summary_tokens, prompt)
            return StoredSummary(text, groups[number])

        episodes = make_each_and_store(write, len(groups), "episode", tools)
        # What an interrupted build stored comes back as lists [text, spans].
        return [StoredSummary(*stored) for stored in episodes]

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Try to answer; while the model says that it cannot, look for what is missing and try
        again.

        It ends after an answer or `rounds` rounds, and the stop reason says after how many.

        Raises:
            WindowExceeded: What a round shows does not fit the window.
        """
        (document,) = documents
        (index,) = indexes
        search = _Search(question, document, _texts_by_kind(document, index), index, self, tools)
        with tools.phase("search"):
            search.find_and_note(query=question.text, question_of_note=question.text)
        material = search.first_material()
        answer = search.try_to_answer(material)
        rounds_done = 0
        while answer == NOT_YET and rounds_done < self.config.rounds:
            with tools.phase("search"):
                search.run_next_round(material)
            material = search.material_of_notes()
            answer = search.try_to_answer(material)
            rounds_done += 1
        memory = search.memory
        nodes = [*memory.earlier_nodes, *memory.new_nodes]
        reason = f"{rounds_done} rounds of probes, {len(nodes)} nodes"
        if answer == NOT_YET:
            reason += ", not answered"
        shown = search.shown(rounds_done)
        return Answer(tools.task.answer_in(answer), shown, reason, tuple(memory.steps))


TextsByKind = dict[Kind, list[FoundText]]


def _texts_by_kind(document: Document, index: Index) -> TextsByKind:
    """All that a search can find in a document: kind -> its passages, summaries or episodes, in the
    order of the index."""
    passages: list[FoundText] = []
    for number, (start, end) in enumerate(index["passages"]):
        text = document.text[start:end].strip()
        passages.append(
            FoundText(kind="passages", number=number, text=text, sources=((start, end),))
        )
    return {
        "passages": passages,
        "summaries": _written_texts("summaries", index),
        "episodes": _written_texts("episodes", index),
    }


def _written_texts(kind: Kind, index: Index) -> list[FoundText]:
    """The pieces of one kind of text that the model wrote, from the index's list of [text, spans].

    Args:
        kind: "summaries" or "episodes".
        index: The document's index.
    """
    texts: list[FoundText] = []
    for number, (text, spans) in enumerate(index[kind]):
        sources = tuple((int(start), int(end)) for start, end in spans)
        texts.append(FoundText(kind, number, text, sources))
    return texts


@dataclass
class _Search:
    """A question's search in one document."""

    question: Question
    document: Document
    texts_by_kind: TextsByKind
    index: Index
    method: ComoRAG
    tools: Tools
    memory: Memory = field(default_factory=Memory)

    def find_and_note(self, query: str, question_of_note: str) -> None:
        """Search for a query, and add a node with a note for each kind of pieces to the memory:
        passages, summaries and episodes. Also adds steps to the trace.

        Args:
            query: The query.
            question_of_note: The question that the notes should help with.
        """
        # The options of a multiple-choice question belong to the question, not to the query.
        query_as_question = replace(self.question, text=query, options=None)
        ranked = self.method.passage_ranker().rank_passages(
            query_as_question, self.index, self.tools
        )
        self.memory.steps.append(ranked.step)
        self._add_node("passages", best_first(ranked.scores), query, question_of_note)
        by_summary = self._best_by_vectors(query, self.index["summary_vectors"])
        self._add_node("summaries", by_summary, query, question_of_note)
        by_episode = self._best_by_vectors(query, self.index["episode_vectors"])
        self._add_node("episodes", by_episode, query, question_of_note)

    def _best_by_vectors(self, query: str, vectors: np.ndarray) -> list[int]:
        """The numbers of texts, the most similar to a query first; [] where there are none.

        Args:
            query: The query.
            vectors: The vectors of the texts [texts, width].
        """
        if not len(vectors):
            return []
        return best_first(similarity_to(query, vectors, self.tools))

    def _add_node(
        self, kind: Kind, numbers_best_first: Sequence[int], query: str, question_of_note: str
    ) -> None:
        """Add a node of one kind to the memory: the best pieces that are new, and a note on them.

        Also adds a step to the trace. The note is "" where no new piece fits the budget.

        Args:
            kind: The kind of the pieces: passages, summaries or episodes.
            numbers_best_first: The numbers of all pieces of this kind, the best for the query
                first.
            query: What was searched for.
            question_of_note: The question that the note is to help with.
        """
        config = self.method.config
        model = self.tools.model()
        found_before = self.memory.numbers_found_before(kind)
        new_texts = [
            self.texts_by_kind[kind][number]
            for number in numbers_best_first[: config.k]
            if number not in found_before
        ]
        if kind != "summaries":  # as in the code, by their places in the text
            new_texts.sort(key=lambda text_found: text_found.number)
        texts = [text_found.text for text_found in new_texts]
        fitting_texts = new_texts[: reading.how_many_fit(texts, config.budget, model, separator="")]
        note = ""
        if fitting_texts:
            text = "\n".join(texts[: len(fitting_texts)])
            note = self._ask_about_text(NOTE, config.note_tokens, text, question=[question_of_note])
        self.memory.new_nodes.append(
            MemoryNode(probe=query, kind=kind, found_texts=tuple(fitting_texts), note=note)
        )
        step = Step(f"note on {kind}", flops=self.tools.meter.flops(), note=f"{query} -> {note}")
        self.memory.steps.append(step)

    def _ask_about_text(
        self, prompt: Prompt, max_reply_tokens: int, text: str, **values: list[str]
    ) -> str:
        """Ask the searcher to write about a text, and return its reply.

        Args:
            prompt: What is asked.
            max_reply_tokens: Most tokens of the reply.
            text: The text; its last lines are left out where it does not fit.
            **values: Pieces for the other placeholders of the prompt.
        """
        model = self.tools.model("searcher")
        request = self._request(prompt, max_reply_tokens, text, model, **values)
        with model.session() as session:
            feed(session, request)
            return session.write(max_reply_tokens).text.strip()

    def _request(
        self,
        prompt: Prompt,
        max_reply_tokens: int,
        text: str,
        model: MeteredModel,
        **values: str | list[str],
    ) -> Pieces:
        """A request about as many lines of a text as fit the window.

        Args:
            prompt: The prompt, with a placeholder "text".
            max_reply_tokens: Most tokens of the reply.
            text: The text; its last lines are left out first.
            model: The model that is asked.
            **values: What stands at the other placeholders.

        Raises:
            WindowExceeded: The request does not fit without the text.
        """
        prompt_in_use = prompt.with_replacements(self.method.config)
        lines = text.split("\n")
        request, _ = fit_lines(
            lambda n_lines: prompt_in_use.fill(text=["\n".join(lines[:n_lines])], **values),
            len(lines),
            model.window - max_reply_tokens,
            model,
        )
        require_room(prompt_tokens(request, model) + max_reply_tokens, model, window=None)
        return request

    def first_material(self) -> str:
        """The text that the first try to answer is given: the pieces that were found, kind by
        kind."""
        return self._material(self.memory.new_texts)

    def material_of_notes(self) -> str:
        """The text that a later try is given: the notes of the round, kind by kind, and all
        findings."""
        findings = f"{HEADING_OF_KIND['finding']}\n{self.memory.findings()}"
        return f"{self._material(self.memory.new_notes)}\n\n{findings}"

    def _material(self, text_of_kind: Callable[[Kind], str]) -> str:
        """The three kinds of pieces, each with its heading.

        Args:
            text_of_kind: Gives the text below the heading of a kind.
        """
        kinds: tuple[Kind, ...] = ("passages", "summaries", "episodes")
        return "\n\n".join(f"{HEADING_OF_KIND[kind]}\n{text_of_kind(kind)}" for kind in kinds)

    def try_to_answer(self, material: str) -> str:
        """Ask the question over the material; return the answer, or NOT_YET where the model says
        that the material is not enough. Also adds a step to the trace."""
        tools = self.tools
        model = tools.model()
        max_reply_tokens = self.method.config.answer_tokens
        request = self._request(
            ANSWER_OR_NOT_YET,
            max_reply_tokens,
            material,
            model,
            instruction=tools.task.instruction,
            question=[reading.question_text(self.question)],
        )
        request_tokens = prompt_tokens(request, model)
        with model.session(chat=tools.task.chat) as session:
            feed(session, request)
            reply = session.write(max_reply_tokens).text
        step = Step("try", tokens=request_tokens, flops=tools.meter.flops(), note=reply)
        self.memory.steps.append(step)
        return final_answer(reply)

    def run_next_round(self, material: str) -> None:
        """Let the model write up to three probes from the material, search for each, and join notes
        of the rounds before to one finding.

        Changes the memory: the nodes that were new become earlier ones; the nodes of the probes and
        of the finding are the new ones. Also adds a step to the trace.
        """
        config = self.method.config
        memory = self.memory
        memory.earlier_nodes += memory.new_nodes
        memory.new_nodes = []
        model = self.tools.model("searcher")
        request = self._request(
            PROBES,
            config.note_tokens,
            material,
            model,
            question=[self.question.text],
            earlier=["\n".join(memory.earlier_probes())],
        )
        response = ask_parsed(model, request, config.note_tokens, probes_in, Retry(retries=0))
        probes = response.parsed or []
        memory.steps.append(Step("probes", tokens=response.prompt_tokens, note="; ".join(probes)))
        for probe in probes:
            self.find_and_note(probe, f"{self.question.text} {probe}")
        notes = "\n\n".join(self._similar_notes())
        finding = self._ask_about_text(
            JOIN_NOTES, config.finding_tokens, notes, question=[self.question.text]
        )
        memory.new_nodes.append(
            MemoryNode(probe=self.question.text, kind="finding", found_texts=(), note=finding)
        )

    def _similar_notes(self) -> list[str]:
        r"""The notes of the half of the earlier nodes that is most similar to the question by the
        vectors of their probe and note, best first, each as "Node 1:\nNote: ..."; of a single node
        its note."""
        earlier_nodes = self.memory.earlier_nodes
        texts = [node.text_for_vector for node in earlier_nodes]
        vectors = self.tools.encoder().encode(texts, "passage")
        nodes_best_first = best_first(
            np.asarray(similarity_to(self.question.text, vectors, self.tools))
        )
        best_half = nodes_best_first[: max(1, len(earlier_nodes) // 2)]
        return [
            f"Node {rank}:\nNote: {earlier_nodes[number].note}"
            for rank, number in enumerate(best_half, 1)
        ]

    def shown(self, rounds: int) -> tuple[Shown, ...]:
        """What the last try to answer saw, in the form in which an Answer says it.

        Args:
            rounds: How many rounds of probes came before it; with 0 it saw the pieces that were
                found, else notes and findings.
        """
        shown: list[Shown] = []
        document_id = self.document.id
        for node in self.memory.new_nodes:
            if rounds:
                shown.append(_generated(document_id, node.note, self._sources(node)))
                continue
            for found in node.found_texts:
                if found.kind == "passages":
                    shown.append(Shown("span", document_id, *found.sources[0]))
                else:
                    shown.append(_generated(document_id, found.text, found.sources))
        return tuple(shown)

    def _sources(self, node: MemoryNode) -> Sequence[Span]:
        """The spans of the document that a node's note is about, each once; a finding is about
        those of all earlier nodes."""
        nodes = [node]
        if node.kind == "finding":
            nodes = self.memory.earlier_nodes
        spans: dict[Span, None] = {}
        for other in nodes:
            for found in other.found_texts:
                spans.update(dict.fromkeys(found.sources))
        return list(spans)


def _generated(document_id: str, text: str, sources: Sequence[Span]) -> Shown:
    """A text that a model wrote, in the form in which an Answer says what the reader saw.

    Args:
        document_id: The id of the document.
        text: The text.
        sources: The spans of the document that it was written from.
    """
    source_places = tuple((document_id, start, end) for start, end in sources)
    return Shown("generated", document_id, text=text, sources=source_places)
