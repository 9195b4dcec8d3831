"""QRMeM as the engine sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from harness.entities.recogniser import missing, packages
from harness.errors import Missing
from harness.method import Index, IndexTools, Method, Skill, Tools
from harness.prompts import Prompt
from harness.types import Answer, Document, Question
from methods import reading, summary
from methods.qrmem.alternatives import entity_trial, graph_expansion
from methods.qrmem.build import build_memory
from methods.qrmem.config import INDEX_FIELDS, QRMeMConfig
from methods.qrmem.desk import Desk
from methods.qrmem.memory import Memory
from methods.qrmem.navigate import navigate, without_navigation
from methods.qrmem.prompts import PROMPTS
from methods.qrmem.skills import skills
from methods.qrmem.trials import replay

_NAVIGATIONS = {
    "reflection": navigate,
    "entity-trial": entity_trial,
    "graph-expansion": graph_expansion,
    "none": without_navigation,
}


class QRMeM(Method):
    """A graph built for the question leads, by reflection on what is missing, to the segments that answer it."""

    Config = QRMeMConfig
    summary = "graph built for the question, navigated by reflection to the segments that answer it (QRMeM)"
    needs: ClassVar[dict[str, frozenset[str]]] = {
        "reader": frozenset({"sampling"}),
        "searcher": frozenset({"sampling"}),
        "builder": frozenset({"sampling"}),
    }
    encoders = ("encoder",)
    scope = "question"
    index_roles = ("builder", "encoder")
    index_fields = INDEX_FIELDS
    recording_fields = ("record_stops",)
    index_version = "5"

    def templates(self) -> Sequence[Prompt]:
        """The same for every navigation, so that all of them share one memory."""
        return (summary.SUMMARY, *PROMPTS, *reading.PROMPTS)

    def index_packages(self) -> tuple[str, ...]:
        """The named-entity tool, where it is a library."""
        return packages(self.config.recogniser)

    def problems(self) -> list[str]:
        """None; raises Missing where the named-entity tool is not installed."""
        if problem := missing(self.config.recogniser):
            raise Missing(problem, f"the named-entity tool {self.config.recogniser}")
        return []

    def skills(self) -> list[Skill]:
        """Summaries, what the memory and its navigation ask for, and reading."""
        return [*summary.skills(summary.SUMMARY.of(self.config)), *skills(self.config), *reading.skills(self.config)]

    def index(self, document: Document, tools: IndexTools) -> Index:
        """The memory of a document for the question it is built for."""
        if tools.question is None:
            raise LookupError("the memory is built for a question, and none was handed over")
        return build_memory(document, tools.question, self.config, tools).to_index()

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Sequence[Index], tools: Tools
    ) -> Answer:
        """Navigate the memory."""
        (document,), (index,) = documents, indexes
        desk = Desk(document, question, Memory.from_index(index), self.config, tools)
        return _NAVIGATIONS[self.config.navigation](desk)

    def stop_rule(self) -> dict[str, Any]:
        """Stop after max_trials updates of the entity set."""
        return {"max_trials": self.config.max_trials}

    def recorded_rule(self) -> dict[str, Any]:
        """The rule of the recording: record_stops."""
        return {"max_trials": max(self.config.max_trials, self.config.record_stops or 0)}

    def replay(self, steps: Sequence[Mapping[str, Any]], **rule: Any) -> int | None:
        """The place of the last step of a search with at most max_trials updates (trials.py)."""
        return replay(steps, rule["max_trials"])
