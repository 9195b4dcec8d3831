"""LongRefiner's parameters (LongRefiner 3 and A.3; docs/methods/longrefiner.md#longrefiner)."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from harness.method import MethodConfig
from harness.method.abilities import AdapterUse
from harness.method.settings import index_setting, setting
from harness.models import MeteredModel
from methods.passage_scores import Scoring

AUTO = "auto"

Rule = Literal["paper", "code"]
PartTitles = Literal["paper", "code", "none"]


class LongRefinerConfig(MethodConfig):
    """Settings as in the paper; "code" is the released code's rule where it departs from it."""

    # Structuring: a change builds a new index.
    structuring: bool = index_setting(
        True,
        help=(
            "Let the model write an outline; false: six-sentence chunks, without titles to select."
        ),
    )
    document_tokens: int = index_setting(
        25_000,
        gt=0,
        help=(
            "Most tokens of a document that the model reads, its middle left out (the "
            "code's number); fewer where the window is shorter."
        ),
    )
    outline_tokens: int = index_setting(10_000, gt=0, help="Most tokens of an outline.")
    keep_headings: bool = index_setting(
        False,
        help=(
            "Keep headings in the text that is structured and read; the paper takes KILT's "
            "pages without."
        ),
    )
    unmatched: Literal["keep", "drop"] = index_setting(
        "keep",
        help=(
            'Text that no clip of the outline stands for: a leaf of its own ("keep"), or '
            'left out of the document, as the code does ("drop").'
        ),
    )
    paragraph_words: int = index_setting(
        100,
        gt=0,
        help="Paragraphs are joined until they have this many words (the code's number).",
    )
    leaf_tokens: int | None = index_setting(
        512,
        gt=0,
        help=(
            "A longer paragraph becomes several leaves, as scoring models read no more "
            "(ours); None: it is never split."
        ),
    )
    chunk_sentences: int = index_setting(
        6, gt=0, help="Sentences of a chunk of text that no outline covers."
    )
    structuring_adapter: str | None = index_setting(
        AUTO, help="Adapter of the refiner's model for this task; see analysis_adapter."
    )
    # Scores
    scoring: Scoring = setting(
        "reranker",
        help=(
            'What compares question and paragraph: "reranker", "dense" (a sentence encoder) '
            'or "bm25".'
        ),
    )
    sigmoid: bool = setting(
        False,
        help="Take the sigmoid of the reranker's logits, as the code does for bce rerankers.",
    )
    normalise: bool = setting(
        True,
        help=(
            "Min-max of the local scores over all nodes of the question. The paper does not "
            "say so, the code does, and without it a reranker's logits would dwarf global "
            "scores of 0 to 1."
        ),
    )
    weight: float | None = setting(
        None, ge=0, le=1, help="R of the sum LS + R * GS; None: from the query analysis."
    )
    refinement: bool = setting(
        True, help="Use global scores; false: local scores only, without a request."
    )
    selection_tokens: int = setting(128, gt=0, help="Most tokens of the list of selected titles.")
    abstract_tokens: int = setting(
        512, gt=0, help="Most tokens of an abstract that the selection is shown."
    )
    local_rule: Rule = setting(
        "paper",
        help=(
            "A section's mean is over its children (paper), or its own paragraphs count as "
            "one (code)."
        ),
    )
    global_rule: Rule = setting(
        "paper",
        help=(
            "A part's score is split among its children (paper), or by their number + 1, on "
            "one level and not for abstracts (code)."
        ),
    )
    # Choice
    selection_rule: Rule = setting(
        "paper",
        help="The rule that chooses parts by their scores (methods/longrefiner/select.py).",
    )
    overflow: Literal["stop", "skip"] = setting(
        "stop",
        help=(
            'Paper\'s rule: a paragraph that does not fit ends the choice ("stop"), or is '
            'passed over ("skip").'
        ),
    )
    budget: int = setting(
        2048, gt=0, help="Most tokens of what is read, titles and separators included."
    )
    budget_of: Literal["reader", "refiner"] = setting(
        "reader",
        help="Whose tokenizer counts them: the reader's, or the refiner's as in the code.",
    )
    titles: bool = setting(True, help="Show a document's title above its first part.")
    part_titles: PartTitles = setting(
        "paper",
        help=(
            "Titles above parts that are read in full: of every such section and subsection "
            "(paper), of the sub-sections of such a section, numbered (code), or none."
        ),
    )
    # Adapters
    analysis_adapter: str | None = setting(
        AUTO,
        help=(
            "Adapter of the refiner's model for this task (--set "
            'roles.refiner.adapters.NAME=FOLDER). "auto": the one named as its task. A run '
            "whose model lacks an adapter that it uses is refused; None: the model without "
            "an adapter."
        ),
    )
    selection_adapter: str | None = setting(
        AUTO, help="Adapter of the refiner's model for this task; see analysis_adapter."
    )

    def tasks(self) -> dict[str, bool]:
        """Task ("analysis", "structuring", "selection") -> whether these settings run it."""
        selecting = self.structuring and self.refinement
        return {
            "analysis": selecting and self.weight is None,
            "structuring": self.structuring,
            "selection": selecting,
        }

    def adapters(self) -> dict[str, AdapterUse]:
        """Task -> its adapter, for the tasks that have one; it must be there where the task runs or
        the setting names it."""
        uses: dict[str, AdapterUse] = {}
        for task, runs in self.tasks().items():
            name: str | None = getattr(self, f"{task}_adapter")
            if name == AUTO:
                uses[task] = AdapterUse(task, runs)
            elif name is not None:
                uses[task] = AdapterUse(name=name, needed=True)
        return uses

    def adapter(
        self, task: Literal["analysis", "structuring", "selection"], model: MeteredModel
    ) -> str | None:
        """The name of the adapter that does a task: the configured one; for "auto", the one that is
        named as the task.

        Args:
            task: The task.
            model: The refiner's model.

        Returns:
            None where the model does the task without an adapter: it is configured so, or for
            "auto" the model has none of that name.
        """
        name: str | None = getattr(self, f"{task}_adapter")
        if name != AUTO:
            return name
        adapters = model.identity.get("adapters")
        if isinstance(adapters, dict) and task in adapters:
            return task
        return None

    @model_validator(mode="after")
    def _check_combination(self) -> LongRefinerConfig:
        """Raise ValueError for `sigmoid` without a reranker, and for `overflow` with the code's
        selection rule, which do not use them."""
        if self.sigmoid and self.scoring != "reranker":
            raise ValueError(
                "sigmoid is of a reranker's logits; leave it out with another method.scoring"
            )
        if self.overflow == "skip" and self.selection_rule == "code":
            raise ValueError(
                "overflow is of the paper's rule; leave it out with method.selection_rule=code"
            )
        return self
