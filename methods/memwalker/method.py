"""MemWalker as the engine sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from harness.method import Index, Method, Skill, Tools
from harness.prompts import Prompt
from harness.types import Answer, Document, Question
from methods import reading
from methods.graph import Graph
from methods.memwalker.config import INDEX_FIELDS, MemWalkerConfig
from methods.memwalker.prompts import PROMPTS
from methods.memwalker.skills import skills
from methods.memwalker.tree import build_tree
from methods.memwalker.walk import Walk


class MemWalker(Method):
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

    def templates(self) -> Sequence[Prompt]:
        """The prompts of the tree and of the walk, and the shared reading prompts, which the fallback uses."""
        return (*PROMPTS, *reading.PROMPTS)

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
