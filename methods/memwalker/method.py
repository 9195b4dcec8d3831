"""MemWalker as the engine sees it.

What MemWalker asks of a model, played with the method's own prompts.

The texts of a scene: "shortened" has the summaries of consecutive parts; "triage" the working memory, a line each (""
for none), then the summaries to choose from; "leaf" the working memory, then the segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from harness.method import Index, Scene, Skill, Tools
from harness.prompts import Pieces, feed
from harness.types import Answer, Document, Question
from methods import reading, summary
from methods.graph import Graph
from methods.memwalker import prompts
from methods.memwalker.config import INDEX_FIELDS, MemWalkerConfig
from methods.memwalker.prompts import PROMPTS
from methods.memwalker.tree import build_tree
from methods.memwalker.walk import Walk


def skills(config: MemWalkerConfig) -> list[Skill]:
    """Summaries of segments and of summaries, the choice of a part, and its reading."""

    def reply(tools: Tools, role: str, pieces: Pieces) -> None:
        model = tools.model(role)
        with model.session() as s:
            feed(s, pieces)
            s.write(s.room() - model.turn_tokens())

    def parents(scene: Scene, tools: Tools) -> None:
        reply(tools, "builder", prompts.parents(scene.texts, config))

    def triage(scene: Scene, tools: Tools) -> None:
        memory, *summaries = scene.texts
        request = prompts.triage(scene.question, memory.splitlines(), summaries, config, back=config.inner_revert)
        reply(tools, "searcher", request)

    def leaf(scene: Scene, tools: Tools) -> None:
        memory, segment = scene.texts
        instruction = scene.task.instruction
        request = prompts.leaf(scene.question, memory.splitlines(), segment, instruction, config)
        reply(tools, "reader", request)

    return [
        *summary.skills(prompts.SEGMENT.of(config)),
        Skill("memwalker parents", "shortened", parents),
        Skill("memwalker triage", "triage", triage),
        Skill("memwalker leaf", "leaf", leaf),
    ]


class MemWalker(reading.ReadingMethod):
    """A tree of summaries, walked down by the model's own choices to a segment that answers."""

    Config = MemWalkerConfig
    summary = "tree of summaries that the model walks down to the part with the answer (arXiv 2310.05029)"
    needs: ClassVar[dict[str, frozenset[str]]] = {
        "reader": frozenset({"sampling"}),
        "searcher": frozenset({"sampling"}),
        "builder": frozenset(),
    }
    scope = "document"
    index_roles = ("builder",)
    index_fields = INDEX_FIELDS
    own_prompts = PROMPTS  # of the tree and of the walk; the shared reading prompts are the fallback's

    def skills(self) -> list[Skill]:
        """Summaries of both kinds, the choice of a part, its reading; with the fallback short answers too."""
        return [*skills(self.config), *(reading.skills(self.config) if self.config.fallback else ())]

    def index(self, document: Document, tools: Tools) -> Index:
        """The tree."""
        return build_tree(document, self.config, tools).to_index()

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Sequence[Index], tools: Tools
    ) -> Answer:
        """Walk the document's tree."""
        (document,), (index,) = documents, indexes
        return Walk(Graph.from_index(index), document, question, self.config, tools).run()
