"""Search-R1's form of searching (Jin et al. 2025, arXiv 2503.09516; code PeterGriffinJin/Search-R1).

    <think> ... </think> <search> who wrote Velindra </search>
    <information> Doc 1(Title: Velindra) The novel ... </information> ... <answer> Toren </answer>

The models of the paper are trained on it with the prompt of the preset search-r1-released. Source:
docs/methods/searching.md#search-r1.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.method import MethodConfig, Tools
from harness.method.settings import setting
from harness.prompts import Pieces, Prompt
from harness.types import Question
from methods.reading import question_text
from methods.tagged_search import TaggedSearch, Tags, Trajectory, last_between, numbered_passages

TASK = Prompt(
    "search task",
    "Answer a question. First, and again whenever you learn something new, reason between <think> "
    "and </think>. If you lack knowledge, write a query between <search> and </search>: what is "
    "found is then put between <information> and </information>. Search as often as you need. When "
    "you need nothing more, write the answer alone between <answer> and </answer>, such as <answer> "
    "Beijing </answer>. {instruction}\nQuestion: {question}\n",
    answers=True,
)
INVALID = Prompt(
    "no query and no answer",
    "\nThis was neither a query between <search> and </search> nor an answer between <answer> and "
    "</answer>. I try again.\n",
    first=False,
)


class SearchR1(TaggedSearch):
    """Reasoning, searches and an answer, each between tags, in one reply."""

    class Config(MethodConfig):
        """Settings of this method."""

        k: int = setting(3, gt=0, help="Passages of a search.")
        max_turns: int = setting(4, gt=0, help="Parts of the reply before the last one.")
        reply_tokens: int = setting(500, gt=0, help="Most tokens of a part.")

    summary = "the model searches between tags while it reasons (Search-R1)"
    traits = TaggedSearch.traits
    tags = Tags("<search>", "</search>", "</answer>")

    def templates(self) -> Sequence[Prompt]:
        """The two prompts that it sends: the task, and what follows a part without query and
        answer."""
        return (TASK, INVALID)

    def request(self, question: Question, tools: Tools) -> Pieces:
        """The first user turn: the task, with the question and its options."""
        return TASK.with_replacements(self.config).fill(
            instruction=tools.task.instruction, question=question_text(question)
        )

    def search_and_quote(self, query: str, trajectory: Trajectory, tools: Tools) -> str:
        """Search, and return the numbered passages between <information> tags. Also adds them to
        the trajectory.

        Args:
            query: The query that the model wrote.
            trajectory: What is written so far.
            tools: The engine's tools.
        """
        hits = tools.search(query, self.config.k)
        trajectory.passages.add(query, hits, tools)
        return f"\n\n<information>{numbered_passages(hits).strip()}</information>\n\n"

    def text_after_invalid_part(self) -> str:
        """A sentence that says which tags there are, put after a part without query and answer."""
        return "".join(INVALID.with_replacements(self.config).fill())

    def answer_of(self, reply: str) -> str:
        """The text between the last answer tags."""
        return last_between(reply, "<answer>", "</answer>")
