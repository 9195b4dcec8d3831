"""How the card of the pocket model is made and shown: fingerprints of skills, results of an exam,
the training.

    stale(card, skills().values())          [(skill, "changed since training" | "never trained")]
    write_card(card_after_training(...))    card.json and CARD.md
    card_page(card)                         its training and its tables
    tables(results)                         (heading, rows) for each skill and measure: questions down, texts across

A skill's fingerprint is a hash of what the teacher writes down for it: token ids, targets and
probes on three fixed scenes. A changed prompt, order or label changes it. A run compares the
prompts' digests alone (pocket/card.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from harness_training.method_skills import skills_of
from harness_training.progress import Hardware, PassedStage, Progress
from harness_training.skills import methods_by_preset
from harness_training.tasks import Scene, Skill
from harness_training.teacher import Teacher

from harness.config.schema import canonical_json
from harness.errors import CannotRun
from harness.llm.adapters import prompt_digests
from harness.llm.fast_tokenizer import FastTokenizer
from harness.stats.bootstrap import with_interval
from harness.stats.rng import Dice
from harness.storage.files import write_json
from pocket.card import (
    CHANGED,
    NAME,
    UNTRAINED,
    Card,
    Exam,
    Result,
    Training,
    blank_card,
    read_card,
)
from pocket.eval.exam import default_cell
from pocket.eval.metrics import AREA, EXACT, INVENTED
from pocket.tasks.catalog import make_scenes, profile_methods, skills
from pocket.tasks.recall import DRILLS
from pocket.tasks.recipes import Recipe

_SCENES_OF_FINGERPRINT = 3
_TEXTS_PER_SCENE = 12  # in which a scene of a fingerprint is looked for
_PAGE_HEAD = """# {name}

A toy Llama trained on texts of a synthetic world, so that every method here can run anywhere. It knows nothing of the
real world and is never to be mistaken for a real model: its scores say that the plumbing works, not which method is
better. Replies are compared letter for letter, on texts it never saw.
"""
_NOTE_OF_MEASURE = {
    EXACT: "Share of replies that are the answer letter for letter.",
    AREA: "Area under the ROC curve of P(first label) over all probes; the floor is that of "
    "counting the parts shown.",
    INVENTED: "Share of what was written that is not in the text; less is better.",
    "kept": "Share of what is in the text that was written.",
}


def with_results(card: Card, results: Sequence[Result], exam: Exam) -> Card:
    """A copy of a card with the results of an exam. Results of skills that were not examined now
    stay if they are of the same exam.

    Args:
        card: The card before.
        results: The new rows.
        exam: The exam that they are of.
    """
    examined = {result.skill for result in results}
    others: list[Result] = []
    if card.exam == exam:
        others = [result for result in card.results if result.skill not in examined]
    return replace(card, exam=exam, results=[*others, *results])


@lru_cache(maxsize=256)
def fingerprint(skill: Skill, folder: Path) -> str:
    """A sha256 of what a model reads and learns for a skill: token ids, targets, and probes (each
    as [place, ids of the labels]) on three fixed scenes.

    Args:
        skill: The skill.
        folder: The model folder whose tokenizer is used.
    """
    scenes_as_json: list[list[Any]] = []
    for scene in _fingerprint_scenes(skill):
        transcript = _teacher(folder).play(skill, scene)
        probes = [[probe.at, list(probe.ids)] for probe in transcript.probes]
        scenes_as_json.append([transcript.ids, transcript.targets, probes])
    return hashlib.sha256(canonical_json(scenes_as_json).encode()).hexdigest()


@lru_cache(maxsize=4)
def _teacher(folder: Path) -> Teacher:
    """What lays out prompts as tokens, by the tokenizer in `folder`."""
    return Teacher(FastTokenizer(folder), NAME)


def _fingerprint_scenes(skill: Skill) -> list[Scene]:
    """Three fixed scenes of the kind that the skill declares (`skill.scene`), over the kinds of
    text in its default recipe in turn. Each is the first in which the model replies, else the
    first.

    Raises CannotRun where no text of a kind gives such a scene.
    """
    recipe = default_cell(skill.scene, skill.name).recipe
    scenes: list[Scene] = []
    for scene_number in range(_SCENES_OF_FINGERPRINT):
        kind = recipe.kinds[scene_number % len(recipe.kinds)]
        recipe_of_kind = recipe.model_copy(update={"kinds": (kind,)})
        candidates = _candidate_scenes(skill, recipe_of_kind, scene_number)
        first = next(candidates, None)
        if first is None:
            raise CannotRun(
                f"no text of the world makes a scene of kind '{skill.scene}', which '{skill.name}' "
                "declares"
            )
        scenes.append(_first_with_reply(first, candidates))
    return scenes


def _candidate_scenes(skill: Skill, recipe: Recipe, scene_number: int) -> Iterator[Scene]:
    """Yield the scenes that one scene of a fingerprint is chosen from, of up to _TEXTS_PER_SCENE
    texts, one text after the other.

    Args:
        skill: The skill, whose kind of scene they are.
        recipe: How the texts are made.
        scene_number: The number of the fingerprint's scene, from 0.
    """
    for text_number in range(_TEXTS_PER_SCENE):
        dice = Dice("fingerprint", scene_number, text_number)
        yield from make_scenes(recipe, skill.scene, dice, "evaluation")


def _first_with_reply(first: Scene, others: Iterable[Scene]) -> Scene:
    """The first scene in which the model has to reply; `first` if there is none.

    Args:
        first: The first scene.
        others: The scenes after it.
    """
    for scene in chain([first], others):
        if scene.replies:
            return scene
    return first


def stale(card: Card, skills: Iterable[Skill]) -> list[tuple[str, str]]:
    """The skills that are not as the weights were trained on them, each as (name, why): CHANGED or
    UNTRAINED.

    Args:
        card: The card of the weights.
        skills: The skills to look at.
    """
    reasons: list[tuple[str, str]] = []
    for skill in skills:
        if skill.name not in card.skills:
            reasons.append((skill.name, UNTRAINED))
        elif fingerprint(skill, card.folder) != card.skills[skill.name]:
            reasons.append((skill.name, CHANGED))
    return reasons


def trained_prompts(card: Card) -> list[str]:
    """Digests, sorted, of the prompts of all methods whose skills the weights were trained on: none
    has changed since training.

    Methods are the first preset of each implementation, with their defaults ({}) and with the
    parameters of profile pocket.
    """
    digests: set[str] = set()
    for parameters in ({}, profile_methods()):
        for method in methods_by_preset(parameters).values():
            if _is_unchanged(card, skills_of(method)):
                digests.update(prompt_digests(method.prompts()).values())
    return sorted(digests)


def _is_unchanged(card: Card, skills: Sequence[Skill]) -> bool:
    """Whether a method has skills, and the model was trained on each as it is now, or never.

    Args:
        card: The card of the model.
        skills: The skills of the method.
    """
    if not skills:
        return False
    return all(why == UNTRAINED for _, why in stale(card, skills))


def trained_skills(passed: Sequence[PassedStage]) -> list[str]:
    """Names of the skills that some stages trained, in their order, without the drills.

    They are read from the recorded shares of each stage ("0 answer": 0.9), so the course file may
    have changed since.

    Args:
        passed: The stages that were passed.
    """
    names: dict[str, None] = {}  # each once, in order
    for stage in passed:
        numbered: list[tuple[int, str]] = []
        for key in stage.right:
            number, _, skill = key.partition(" ")
            numbered.append((int(number), skill))
        for _, skill in sorted(numbered):
            names[skill] = None
    return [name for name in names if name not in DRILLS]


def training_history(folder: Path) -> tuple[Training, ...]:
    """The trainings that the weights in a model folder went through, the first one first; () where
    its card does not say."""
    card = read_card(folder)
    if card is None or card.trained is None:
        return ()
    return _all_trainings(card.trained)


def _all_trainings(last: Training) -> tuple[Training, ...]:
    """All trainings of weights, the first one first, as a flat list.

    Args:
        last: The last of them, which holds those before it.
    """
    return (*last.before, replace(last, before=()))


@dataclass(frozen=True)
class Origin:
    """The weights that a training began from.

    Args:
        begin: The first digits of their sha256; None for random weights.
        history: The trainings that they went through, the first one first.
    """

    begin: str | None = None
    history: tuple[Training, ...] = ()


def card_after_training(
    folder: Path, progress: Progress, seed: int, hardware: Hardware, origin: Origin
) -> Card:
    """Make the card of weights that a training just saved: how they were trained, and which skills
    and prompts they know; no results yet. A skill that is not declared any more is left out.

    Args:
        folder: The model folder with the weights.
        progress: How far the training is.
        seed: The seed of the training.
        hardware: What it ran on.
        origin: The weights that it began from.
    """
    skills_by_name = skills()
    trained_names = [name for name in trained_skills(progress.passed) if name in skills_by_name]
    trained = Training(
        seed=seed,
        steps=progress.step,
        tokens=progress.tokens,
        seconds=round(progress.seconds),
        stages=tuple(progress.passed),
        hardware=hardware,
        began=origin.begin,
        before=origin.history,
    )
    fingerprints = {name: fingerprint(skills_by_name[name], folder) for name in trained_names}
    card = replace(blank_card(folder), trained=trained, skills=fingerprints)
    return replace(card, prompts=trained_prompts(card))


def card_page(card: Card) -> str:
    """The card as a page in Markdown (CARD.md): the trainings of the weights, and the results of
    the exam."""
    paragraphs = [_PAGE_HEAD.format(name=card.name), "## Training\n"]
    if card.trained is None:
        paragraphs.append("Nothing is known of it.\n")
    else:
        paragraphs += _paragraphs_on_training(card.trained)
    if card.exam is None or not card.results:
        return "\n".join(
            [*paragraphs, "It was not examined yet: `harness pocket eval` does that.\n"]
        )
    exam_line = (
        f"Exam of seed {card.exam.seed}, {card.exam.questions} questions a cell; "
        "percent [95 % interval] of n. Lengths are characters / 4. The floor is what guessing "
        "without reading would reach.\n"
    )
    measure_notes = [f"- {name}: {text}" for name, text in _NOTE_OF_MEASURE.items()]
    table_lines = [_table_as_line(heading, rows) for heading, rows in tables(card.results)]
    return (
        "\n".join([*paragraphs, "## Results\n", exam_line, *measure_notes, "", *table_lines]) + "\n"
    )


def _paragraphs_on_training(training: Training) -> list[str]:
    """The paragraphs on a training: what all trainings of the weights took together, and a line for
    each."""
    steps = 0
    tokens = 0
    seconds = 0.0
    lines = ""
    trainings = _all_trainings(training)
    for each in trainings:
        steps += each.steps
        tokens += each.tokens
        seconds += each.seconds
        passed = "; ".join(stage.stage for stage in each.stages) or "no stage passed"
        lines += f"- seed {each.seed}, {each.steps:,} steps: {passed}\n"
    hardware = training.hardware
    summary = (
        f"{len(trainings)} trainings, each from the weights of the one before: {steps:,} steps, "
        f"{tokens:,} tokens, {seconds / 60:,.0f} minutes, on {hardware.device} with "
        f"{hardware.threads} threads. card.json has the replies right at the end of "
        "each stage and the sha256 of the weights.\n"
    )
    return [summary, lines]


def _table_as_line(heading: str, rows: Sequence[Sequence[str]]) -> str:
    """A table of the exam in one line: "- **answer: exact match.** one hop: 8 facts = 97; ...".

    Args:
        heading: The title of the table.
        rows: Its rows, the head first; empty cells are left out.
    """
    (_, *text_kinds), *question_rows = rows
    questions: list[str] = []
    for question_kind, *results in question_rows:
        filled = [
            f"{text} = {cell}" for text, cell in zip(text_kinds, results, strict=True) if cell
        ]
        questions.append(f"{question_kind}: {'; '.join(filled)}")
    return f"- **{heading}.** {'. '.join(questions)}"


def _percent(value: float) -> str:
    """A share in percent, without the sign: 0.971 -> "97"."""
    return f"{100 * value:.0f}"


def _result_text(result: Result) -> str:
    """A result as a cell of a table: "97 [95, 99] of 400, floor 25"; "-" without a value."""
    if result.value is None:
        return "-"
    share = with_interval(_percent, result.value, result.low, result.high)
    text = f"{share} of {result.n}"
    if result.floor is not None:
        text += f", floor {_percent(result.floor)}"
    if result.failed:
        text += f", {result.failed} failed"
    return text


def tables(results: Sequence[Result]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the tables of the exam, one for each skill and measure, each as (title, rows of cells,
    the head first): kinds of questions down, kinds of texts across."""
    results_by_table: dict[tuple[str, str], list[Result]] = {}
    for row in results:
        results_by_table.setdefault((row.skill, row.measure), []).append(row)
    for (skill, measure), rows in results_by_table.items():
        text_kinds = dict.fromkeys(row.text for row in rows)
        cells_by_question_kind: dict[str, dict[str, str]] = {}  # kind of question -> text -> cell
        for row in rows:
            cells_by_question_kind.setdefault(row.asked, {})[row.text] = _result_text(row)
        table_rows: list[list[str]] = []
        for question_kind, cells in cells_by_question_kind.items():
            table_rows.append([question_kind, *(cells.get(text, "") for text in text_kinds)])
        yield f"{skill}: {measure}", [["", *text_kinds], *table_rows]


def write_card(card: Card, folder: Path | None = None) -> Path:
    """Write card.json and CARD.md, and return the folder. Raises OSError.

    Args:
        card: The card.
        folder: The folder; by default that of the weights.
    """
    folder = folder or card.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "CARD.md").write_text(card_page(card), encoding="utf-8")
    write_json(folder / "card.json", card.as_json())
    return folder
