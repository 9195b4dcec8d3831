"""LongRefiner's parameters (LongRefiner 3 and A.3; docs/methods/longrefiner.md#longrefiner)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from harness.method import MethodConfig
from harness.method.training import AdapterUse
from harness.models import MeteredModel
from methods.passage_scores import Scoring

AUTO = "auto"

Rule = Literal["paper", "code"]
PartTitles = Literal["paper", "code", "none"]


class LongRefinerConfig(MethodConfig):
    """Structuring (s), scores (c), choice (h). "code" is the released code's rule where it departs
    from the paper.

    structuring          s  let the model write an outline; false: six-sentence chunks, without titles to select
    document_tokens      s  tokens of a document that the model reads at most, its middle left out (the code's number);
                            fewer where the window is shorter
    outline_tokens       s  tokens of an outline at most
    keep_headings        s  leave headings in the text that is structured and read; the paper takes KILT's pages without
    unmatched            s  text that no clip of the outline stands for: kept as leaves of its own ("keep"), or left out
                            of the document, as the code does ("drop")
    paragraph_words      s  paragraphs are joined until they have this many words (the code's number)
    leaf_tokens          s  a longer paragraph is several leaves: scoring models read no more (ours); None: never split
    chunk_sentences      s  sentences of a chunk of text that no outline covers
    scoring              c  what compares question and paragraph: reranker, dense (a sentence encoder) or bm25
    sigmoid              c  of the reranker's logits, as the code takes for bce rerankers
    normalise            c  min-max of the local scores over all nodes of the question. The paper does not say so, the
                            code does, and without it a reranker's logits would dwarf global scores
                            of 0 to 1
    weight               c  R of the sum LS + R * GS; None: from the query analysis
    refinement           c  use global scores at all; false: local scores only, without a request
    selection_tokens     c  tokens of the list of selected titles at most
    abstract_tokens      c  tokens of an abstract that the selection is shown at most
    local_rule           c  a section's mean is over its children (paper), or its own paragraphs count as one (code)
    global_rule          c  a part's score is split among its children (paper), or by their number + 1, on one level
                            and not for abstracts (code)
    selection_rule       h  see select.py
    overflow             h  paper rule: a paragraph that does not fit ends the choice ("stop"), or is passed over
    budget               h  tokens of what is read at most, titles and separators included
    budget_of            h  whose tokenizer counts them: the reader's, or the refiner's as in the code
    titles               h  show a document's title above its first part
    part_titles          h  titles above parts that are read whole: of every such section and sub-section (paper), of
                            the sub-sections of such a section, numbered (code), or none
    analysis_adapter,    s  adapters of the refiner's model (--set roles.refiner.adapters.NAME=FOLDER) for the three
    structuring_adapter, c  tasks. "auto": the one named as its task (analysis, structuring, selection). A run whose
    selection_adapter       model lacks an adapter of a task that it uses is refused; None: the model without an adapter
    """

    structuring: bool = True
    document_tokens: int = Field(default=25_000, gt=0)
    outline_tokens: int = Field(default=10_000, gt=0)
    keep_headings: bool = False
    unmatched: Literal["keep", "drop"] = "keep"
    paragraph_words: int = Field(default=100, gt=0)
    leaf_tokens: int | None = Field(default=512, gt=0)
    chunk_sentences: int = Field(default=6, gt=0)
    scoring: Scoring = "reranker"
    sigmoid: bool = False
    normalise: bool = True
    weight: float | None = Field(default=None, ge=0, le=1)
    refinement: bool = True
    selection_tokens: int = Field(default=128, gt=0)
    abstract_tokens: int = Field(default=512, gt=0)
    local_rule: Rule = "paper"
    global_rule: Rule = "paper"
    selection_rule: Rule = "paper"
    overflow: Literal["stop", "skip"] = "stop"
    budget: int = Field(default=2048, gt=0)
    budget_of: Literal["reader", "refiner"] = "reader"
    titles: bool = True
    part_titles: PartTitles = "paper"
    analysis_adapter: str | None = AUTO
    structuring_adapter: str | None = AUTO
    selection_adapter: str | None = AUTO

    def tasks(self) -> dict[str, bool]:
        """Each of the three tasks, and whether this configuration runs it."""
        selecting = self.structuring and self.refinement
        return {
            "analysis": selecting and self.weight is None,
            "structuring": self.structuring,
            "selection": selecting,
        }

    def adapters(self) -> dict[str, AdapterUse]:
        """Task -> its adapter, needed where the task runs or the name was given."""
        names = {task: getattr(self, f"{task}_adapter") for task in self.tasks()}
        return {
            task: AdapterUse(
                task if names[task] == AUTO else names[task], runs or names[task] != AUTO
            )
            for task, runs in self.tasks().items()
            if names[task] is not None
        }

    def adapter(
        self, task: Literal["analysis", "structuring", "selection"], model: MeteredModel
    ) -> str | None:
        """The name of the adapter for a task on `model`, the refiner's; None: the model without an
        adapter."""
        name: str | None = getattr(self, f"{task}_adapter")
        if name != AUTO:
            return name
        return task if task in model.identity.get("adapters", {}) else None

    @model_validator(mode="after")
    def _check_combination(self) -> LongRefinerConfig:
        """Raise ValueError for `sigmoid` or `overflow` with a scoring or rule that has no use for
        it."""
        if self.sigmoid and self.scoring != "reranker":
            raise ValueError(
                "sigmoid is of a reranker's logits; leave it out with another method.scoring"
            )
        if self.overflow == "skip" and self.selection_rule == "code":
            raise ValueError(
                "overflow is of the paper's rule; leave it out with method.selection_rule=code"
            )
        return self


INDEX_FIELDS = (
    "structuring",
    "document_tokens",
    "outline_tokens",
    "keep_headings",
    "unmatched",
    "paragraph_words",
    "leaf_tokens",
    "chunk_sentences",
    "structuring_adapter",
)
