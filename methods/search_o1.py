"""Search-o1 (Li et al. 2025, arXiv 2501.05366; code sunnynexus/Search-o1): a reasoning model searches
in its reasoning, and what is found is first read and shortened by the same model.

    ... <|begin_search_query|>who wrote Velindra<|end_search_query|>
    ──► 10 passages ──► Reason-in-Documents ──► <|begin_search_result|>By Toren.<|end_search_result|> ... \\boxed{Toren}

Source: docs/methods/searching.md#search-o1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.method import MethodConfig, Tools
from harness.method.settings import setting
from harness.prompts import Pieces, Prompt, feed
from harness.types import Question
from methods.reading import question_text
from methods.searching import how_many_fit_request, with_separators
from methods.tagged_search import TaggedSearch, Tags, Trajectory

TASK = Prompt(
    "search task",
    "Answer a question by reasoning step by step. You can search: write "
    "<|begin_search_query|> your query <|end_search_query|>, and what is found about it is put "
    "between <|begin_search_result|> and <|end_search_result|>. Then reason on, and search again "
    "where you need to, {searches} times at most. Write the final answer as \\boxed{answer}. "
    "{instruction}\n\nQuestion:\n{question}\n\n",
    answers=True,
)
READ = Prompt(
    "reason in documents",
    "Read the passages below, which were found for a query, and write what in them helps to go on "
    "with a reasoning. Write only what the passages say. Begin with **Final Information**; if "
    "nothing helps, write after it: No helpful information found.\n\nReasoning so far:\n{reasoning}"
    "\n\nQuery: {query}\n\nPassages:\n{text}\n\nThe passages end here.\n",
)
_INFORMATION = "**Final Information**"
_NOTHING = "No helpful information found."
_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_TEXT = re.compile(r"\\text\{([^{}]*)\}")


class SearchO1(TaggedSearch):
    """Queries between tags in one reasoning; the model reads what is found in requests of their
    own."""

    class Config(MethodConfig):
        """Settings of this method."""

        k: int = setting(10, gt=0, help="Passages of a search.")
        most: int = setting(10, gt=0, help="Most searches.")
        max_turns: int = setting(15, gt=0, help="Parts of the reply before the last one.")
        reply_tokens: int = setting(8192, gt=0, help="Most tokens of a part.")
        read_tokens: int = setting(1024, gt=0, help="Most tokens about the passages of a search.")

    summary = "a reasoning model searches in its reasoning and shortens what is found (Search-o1)"
    traits = TaggedSearch.traits
    tags = Tags("<|begin_search_query|>", "<|end_search_query|>")

    def templates(self) -> Sequence[Prompt]:
        """The two prompts that it sends: the task, and the reading of what was found."""
        return (TASK, READ)

    def request(self, question: Question, tools: Tools) -> Pieces:
        """The first user turn: the task, with the question and its options."""
        return TASK.with_replacements(self.config).fill(
            instruction=tools.task.instruction,
            question=question_text(question),
            searches=str(self.config.most),
            answer="{answer}",  # stands in the prompt as it is: the form of a box
        )

    def search_and_quote(self, query: str, trajectory: Trajectory, tools: Tools) -> str:
        """Search, and let the model write what in the passages helps.

        Args:
            query: The query that the model wrote.
            trajectory: What is written so far; the query and its passages are added to it.
            tools: The engine's tools.

        Returns:
            What the model writes, between result tags; or a sentence there that no search was made,
            as the limit is reached or the query was searched for before.
        """
        if len(trajectory.queries) >= self.config.most:
            return _search_result("The limit of searches is reached; no more search is possible.")
        if query in trajectory.queries:
            return _search_result("This query was searched for before; see what was found then.")
        trajectory.queries.append(query)
        hits = tools.search(query, self.config.k)
        trajectory.passages.add(query, hits, tools)
        texts = [hit.titled_text for hit in hits]
        return f"\n{_search_result(self._ask_what_helps(query, trajectory.text, texts, tools))}\n"

    def _ask_what_helps(
        self, query: str, reasoning: str, texts: Sequence[str], tools: Tools
    ) -> str:
        """Let the model write what in some passages helps the reasoning, in a request of its own.

        Args:
            query: What was searched for.
            reasoning: All that the model wrote so far.
            texts: The passages; as many of the first as fit are shown.
            tools: The engine's tools.

        Returns:
            What follows "**Final Information**" in the reply, else "No helpful information found.".
        """
        model = tools.model()
        max_tokens = self.config.read_tokens
        reasoning_steps = _reasoning_without_middle(reasoning)
        request_without_texts = READ.with_replacements(self.config).fill(
            reasoning=[reasoning_steps], query=[query], text=[]
        )
        shown_count = how_many_fit_request(texts, request_without_texts, max_tokens, model)
        shown = with_separators(texts[:shown_count])
        request = READ.with_replacements(self.config).fill(
            reasoning=[reasoning_steps], query=[query], text=shown
        )
        with model.session() as session:
            feed(session, request)
            reply = session.write(max_tokens).text
        _, label, information = reply.rpartition(_INFORMATION)
        if not label:
            return _NOTHING
        return information.strip() or _NOTHING

    def text_after_invalid_part(self) -> None:
        """None: a reply without a query ends the reasoning."""

    def answer_of(self, reply: str) -> str:
        r"""The content of the last box: "... \boxed{\text{Toren}}" -> "Toren"; "" where there is
        none."""
        boxes = _BOXED.findall(reply)
        if not boxes:
            return ""
        return _TEXT.sub(r"\1", str(boxes[-1])).strip()


def _search_result(text: str) -> str:
    """A text between the tags that mark what a search found."""
    return f"\n<|begin_search_result|>{text}<|end_search_result|>\n"


def _reasoning_without_middle(reasoning: str) -> str:
    """The steps of a reasoning, each on a line as "Step 3: ...", without some of its middle.

    The first and the last three stay, and those that search or hold what was found; each run of
    others becomes "...". Blank lines are no steps here; the released code counts an empty step as
    the last one of four.
    """
    steps = [line for line in reasoning.split("\n") if line.strip()]
    lines: list[str] = []
    for number, step in enumerate(steps):
        searches = "<|begin_search_" in step
        is_at_end = number == 0 or number >= len(steps) - 3
        if is_at_end or searches:
            lines.append(f"Step {number + 1}: {step}")
        elif lines[-1] != "...":
            lines.append("...")
    return "\n\n".join(lines)
