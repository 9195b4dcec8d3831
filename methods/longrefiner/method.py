"""LongRefiner as the engine sees it."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from harness.method import Index, Indexes, MethodConfig, Needs, Tools, Traits
from harness.method.training import AdapterUse, Skill, TrainingTask
from harness.types import Answer, Document, Question, Shown, Step
from methods import reading
from methods.longrefiner import prompts
from methods.longrefiner.asking import global_weight, select_titles, skills, structure
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.select import (
    Choice,
    choose_by_code,
    choose_nodes,
    global_scores,
    local_scores,
    normalised,
)
from methods.longrefiner.shown import Showing
from methods.longrefiner.tree import Tree
from methods.passage_scores import ROLES, distinct_documents, score_passages


class LongRefiner(reading.ReadingMethod):
    """Documents as trees; the nodes that score best for the question are read, up to a budget."""

    Config = LongRefinerConfig
    summary = "documents structured by a model, their best parts and paragraphs read up to a budget (LongRefiner)"
    traits = Traits(one_document=False, draws=False)
    needs: ClassVar[Needs] = {"reader": frozenset(), "refiner": frozenset({"probe"})}
    scope = "document"
    index_roles = ("refiner",)
    index_version = "5"
    own_prompts = prompts.PROMPTS
    without_adapters = "use longrefiner-no-adapters, which runs on the model as it is"

    def __init__(self, config: MethodConfig) -> None:
        super().__init__(config)
        # What scores paragraphs is a parameter, so that all rows of table 4 share their trees.
        self.encoders = ROLES[self.config.scoring]  # type: ignore[misc]

    def skills(self) -> list[Skill]:
        """The three tasks as far as they are used, short answers and choices."""
        config: LongRefinerConfig = self.config
        runs = config.tasks().values()
        pairs = zip(skills(config), runs, strict=True)
        return [*(skill for skill, is_used in pairs if is_used), *reading.skills(config)]

    def adapters(self) -> dict[str, dict[str, AdapterUse]]:
        """The adapters of those of the three tasks that the config uses."""
        config: LongRefinerConfig = self.config
        return {"refiner": config.adapters() if config.structuring else {}}

    def training(self) -> list[TrainingTask]:
        """The training tasks of the three adapters."""
        from methods.longrefiner.training import tasks

        return tasks(self.config)

    def index(self, document: Document, tools: Tools) -> Index:
        """The index: the document's tree."""
        return structure(document, self.config, tools.model("refiner"), tools.keep).to_index()

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Score, choose, read. If nothing fits, answer without a text; the stop reason has a note
        of it."""
        config: LongRefinerConfig = self.config
        kept = distinct_documents(documents)
        trees = [Tree.from_index(indexes[i]) for i in kept]
        documents = [tree.view(documents[i]) for i, tree in zip(kept, trees, strict=True)]
        n_duplicates = len(indexes) - len(kept)
        notes = [
            f"{d.title or d.id}: {note}"
            for d, t in zip(documents, trees, strict=True)
            for note in t.notes
        ]
        if n_duplicates:
            notes.insert(0, f"{n_duplicates} documents are there twice and read once")
        scores = {
            "documents": float(len(trees)),
            "nodes": float(sum(len(t.nodes) for t in trees)),
            "structured": sum(t.structured for t in trees) / max(len(trees), 1),
        }
        steps = [Step("start", scores=scores, flops=tools.meter.flops(), note="; ".join(notes))]
        with tools.phase("search"):
            local = self._local_scores(question, documents, trees, tools)
            weight, shares = self._global_scores(question, documents, trees, tools, steps)
        total = [ls + weight * gs for ls, gs in zip(local, shares, strict=True)]
        model = tools.model()
        counter = model if config.budget_of == "reader" else tools.model("refiner")
        showing = Showing(documents, trees, counter, config.titles, config.part_titles)
        request = reading.Reading(tools.task, config=config)
        room = reading.room_for_text(question, tools, model, request)
        limit = min(config.budget, room)
        if config.selection_rule == "code":
            choice = choose_by_code(showing, total, limit)
        else:
            choice = choose_nodes(showing, total, limit, skip=config.overflow == "skip")
        reason = choice.reason if limit == config.budget or choice.reason != "budget" else "window"
        parts = {"local": local, "global": shares, "total": total}
        steps += _steps_taken(choice, showing, parts, tools)
        texts = [showing.text(piece) for piece in choice.pieces]
        text = reading.ask(question, texts, tools, model, request)
        if not texts:
            reason = (
                f"{reason}: not even one node fits"
                if any(len(values) for values in total)
                else "no text"
            )
        return Answer(text, showing.shown(choice.pieces), reason, tuple(steps))

    def _local_scores(
        self, question: Question, documents: Sequence[Document], trees: Sequence[Tree], tools: Tools
    ) -> list[np.ndarray]:
        """Local scores LS [nodes] for each document; the leaves of all documents are scored in one
        call."""
        config: LongRefinerConfig = self.config
        spans = [(d, t.nodes[i]) for d, t in zip(documents, trees, strict=True) for i in t.leaves()]
        scores = score_passages(
            config.scoring, question.text, [d.text[n.start : n.end] for d, n in spans], tools
        )
        if config.sigmoid:
            scores = 1 / (1 + np.exp(-scores))
        local, at = [], 0
        for tree in trees:
            count = len(tree.leaves())
            local.append(local_scores(tree, scores[at : at + count].tolist(), config.local_rule))
            at += count
        return normalised(local) if config.normalise else local

    def _global_scores(
        self,
        question: Question,
        documents: Sequence[Document],
        trees: Sequence[Tree],
        tools: Tools,
        steps: list[Step],
    ) -> tuple[float, list[np.ndarray]]:
        """Weight R, and global scores GS [nodes] a document; 0 where not used; appends its requests
        to `steps`."""
        config: LongRefinerConfig = self.config
        if not (config.refinement and config.structuring):
            return 0.0, [np.zeros(len(tree.nodes)) for tree in trees]
        weight = config.weight
        if weight is None:
            weight, step = global_weight(question, config, tools)
            steps.append(step)
        pairs = list(zip(documents, trees, strict=True))
        selections = tools.map(lambda pair: select_titles(question, *pair, config, tools), pairs)
        steps += [selection.step for selection in selections]
        return weight, [
            global_scores(t, a.titles, config.global_rule)
            for t, a in zip(trees, selections, strict=True)
        ]


def _steps_taken(
    choice: Choice, showing: Showing, parts: dict[str, list[np.ndarray]], tools: Tools
) -> list[Step]:
    """A step for each chosen node, numbered through all documents; parts: name -> scores [nodes] of
    each document."""
    firsts = np.cumsum([0, *(len(tree.nodes) for tree in showing.trees)])
    steps = []
    for document, number in choice.nodes:
        tree, source = showing.trees[document], showing.documents[document]
        node = tree.nodes[number]
        spans = tree.original(node.start, node.end)
        steps.append(
            Step(
                "select",
                node=int(firsts[document]) + number,
                level=tree.level(number),
                scores={name: float(values[document][number]) for name, values in parts.items()},
                tokens=showing.model.count(source.text[node.start : node.end]),
                flops=tools.meter.flops(),
                shown=Shown("span", source.id, spans[0][0], spans[-1][1]),
                note=f"{node.kind} {node.title}".strip(),
            )
        )
    return steps
