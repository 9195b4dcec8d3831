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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness_training.cards import processor
from harness_training.method_skills import skills_of
from harness_training.tasks import Scene, Skill
from harness_training.teacher import Teacher

from harness.config.schema import canonical
from harness.errors import CannotRun
from harness.llm.adapters import prompt_digests
from harness.stats.bootstrap import with_interval
from harness.stats.rng import Dice
from harness.storage.files import write_json
from pocket.card import CHANGED, NAME, UNTRAINED, Card, blank_card, read_card
from pocket.eval.metrics import AREA, EXACT, INVENTED

if TYPE_CHECKING:
    from harness_training.loop import Progress

    from pocket.eval.exam import Row


_SCENES, _TEXTS = 3, 12  # scenes of a fingerprint, and texts that each is looked for in
_HEAD = """# {name}

A toy Llama trained on texts of a synthetic world, so that every method here can run anywhere. It knows nothing of the
real world and is never to be mistaken for a real model: its scores say that the plumbing works, not which method is
better. Replies are compared letter for letter, on texts it never saw.
"""
_NOTES = {
    EXACT: "Share of replies that are the answer letter for letter.",
    AREA: "Area under the ROC curve of P(first label) over all probes; the floor is that of counting the parts shown.",
    INVENTED: "Share of what was written that is not in the text; less is better.",
    "kept": "Share of what is in the text that was written.",
}
Result = Mapping[str, Any]


def with_results(card: Card, rows: Iterable[Row], questions: int, seed: int) -> Card:
    """The card with these rows; rows of other skills stay if their exam had the same `questions` a
    cell and `seed`."""
    results: list[Mapping[str, Any]] = [asdict(row) for row in rows]
    exam, skills = {"questions": questions, "seed": seed}, {row["skill"] for row in results}
    kept = [row for row in card.results if row["skill"] not in skills] if card.exam == exam else []
    return replace(card, exam=exam, results=[*kept, *results])


@lru_cache(maxsize=256)
def fingerprint(skill: Skill, folder: Path) -> str:
    """sha256 of the token ids, targets and probes of `skill` on fixed scenes, with the tokenizer of
    `folder`."""
    plays = [_teacher(folder).play(skill, scene) for scene in _fingerprint_scenes(skill)]
    parts = [[t.ids, t.targets, [[a.at, list(a.ids)] for a in t.probes]] for t in plays]
    return hashlib.sha256(canonical(parts).encode()).hexdigest()


@lru_cache(maxsize=4)
def _teacher(folder: Path) -> Teacher:
    from harness.llm.fast_tokenizer import FastTokenizer

    return Teacher(FastTokenizer(folder), NAME)


def _fingerprint_scenes(skill: Skill) -> list[Scene]:
    """Three scenes of the skill's kind, of each kind of text in turn; where it can, one in which
    the model replies."""
    from pocket.eval.exam import default_cell
    from pocket.tasks.catalog import make_scenes

    recipe = default_cell(skill.scene, skill.name).recipe
    scenes: list[Scene] = []
    for number in range(_SCENES):
        narrowed = recipe.model_copy(update={"kinds": (recipe.kinds[number % len(recipe.kinds)],)})
        rolls = (Dice("fingerprint", number, text) for text in range(_TEXTS))
        drawn = (
            scene
            for dice in rolls
            for scene in make_scenes(narrowed, skill.scene, dice, "evaluation")
        )
        first = next(drawn, None)
        if first is None:
            raise CannotRun(
                f"no text of the world makes a scene of kind '{skill.scene}', which '{skill.name}' "
                "declares"
            )
        scenes.append(
            first if first.replies else next((scene for scene in drawn if scene.replies), first)
        )
    return scenes


def stale(card: Card, skills: Iterable[Skill]) -> list[tuple[str, str]]:
    """(skill, why) for each that is not what the weights were trained on: CHANGED or UNTRAINED."""
    reasons: list[tuple[str, str]] = []
    for skill in skills:
        if skill.name not in card.skills:
            reasons.append((skill.name, UNTRAINED))
        elif fingerprint(skill, card.folder) != card.skills[skill.name]:
            reasons.append((skill.name, CHANGED))
    return reasons


def trained_prompts(card: Card) -> list[str]:
    """Digests of the prompts of every method that asks for nothing that has changed since training.

    Methods are the first of each implementation, with their defaults and with the values of profile
    pocket.
    """
    from harness_training.skills import methods_by_preset

    from pocket.tasks.catalog import profile_methods

    every = [
        method
        for parameters in ({}, profile_methods())
        for method in methods_by_preset(parameters).values()
    ]
    unchanged = (
        m
        for m in every
        if skills_of(m) and all(why == UNTRAINED for _, why in stale(card, skills_of(m)))
    )
    return sorted(
        {digest for method in unchanged for digest in prompt_digests(method.prompts()).values()}
    )


def trained_skills(passed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the skills that the stages `passed` (as in Progress) trained, in their order,
    without the drills.

    The recorded shares of a stage ("0 answer": 0.9) have the names even if the course file has
    changed since.
    """
    from pocket.tasks.recall import DRILLS

    names: list[str] = []
    for line in passed:
        numbered = (
            (int(number), skill)
            for number, _, skill in (key.partition(" ") for key in line["right"])
        )
        names += [skill for _, skill in sorted(numbered)]
    return [name for name in dict.fromkeys(names) if name not in DRILLS]


def training_history(folder: Path) -> list[Mapping[str, Any]]:
    """The trainings that the weights in `folder` went through, the first one first; [] where there
    is no card."""
    card = read_card(folder)
    if card is None or not card.trained:
        return []
    last = {key: value for key, value in card.trained.items() if key != "before"}
    return [*card.trained.get("before", ()), last]


def card_after_training(
    folder: Path, progress: Progress, seed: int, device: str, origin: Mapping[str, Any] = {}
) -> Card:
    """The card of weights that a training just saved in `folder`: how they were trained, no results
    yet.

    origin: "begin", the first digits of the sha256 of the weights that it began from, and their
    "history".
    """
    import torch

    from pocket.tasks.catalog import skills

    skill_names = skills()
    names = [name for name in trained_skills(progress.passed) if name in skill_names]
    trained = {
        "seed": seed,
        "steps": progress.step,
        "tokens": progress.tokens,
        "seconds": round(progress.seconds),
        "stages": progress.passed,
        "hardware": {"device": processor(device), "threads": torch.get_num_threads()},
        **{
            ours: origin[key]
            for ours, key in (("began", "begin"), ("before", "history"))
            if origin.get(key)
        },
    }
    prints = {name: fingerprint(skill_names[name], folder) for name in names}
    card = replace(blank_card(folder), trained=trained, skills=prints)
    return replace(card, prompts=trained_prompts(card))


def card_page(card: Card) -> str:
    """The card as Markdown: the trainings of the weights, the first one first, and the results of
    the exam."""
    parts = [_HEAD.format(name=card.name), "## Training\n"]
    if training := card.trained:
        every = [*training.get("before", ()), training]
        steps, tokens, seconds = (
            sum(run.get(key, 0) for run in every) for key in ("steps", "tokens", "seconds")
        )
        hardware = training.get("hardware", {})
        parts.append(
            f"{len(every)} trainings, each from the weights of the one before: {steps:,} steps, "
            f"{tokens:,} tokens, "
            f"{seconds / 60:,.0f} minutes, on {hardware.get('device', 'unknown')} with "
            f"{hardware.get('threads', '?')} "
            "threads. card.json has the replies right at the end of each stage and the sha256 of "
            "the weights.\n"
        )
        lines = []
        for run in every:
            stages = "; ".join(stage["stage"] for stage in run.get("stages", ()))
            lines.append(
                f"- seed {run.get('seed')}, {run.get('steps', 0):,} steps: "
                f"{stages or 'no stage passed'}\n"
            )
        parts.append("".join(lines))
    else:
        parts.append("Nothing is known of it.\n")
    if not card.results:
        return "\n".join([*parts, "It was not examined yet: `harness pocket eval` does that.\n"])
    exam, lines = card.exam, []
    for heading, ((_, *texts), *rows) in tables(card.results):
        asked = [
            f"{name}: "
            + "; ".join(f"{text} = {cell}" for text, cell in zip(texts, cells, strict=True) if cell)
            for name, *cells in rows
        ]
        lines.append(f"- **{heading}.** " + ". ".join(asked))
    head = (
        f"Exam of seed {exam.get('seed')}, {exam.get('questions')} questions a cell; percent [95 % "
        "interval] of n. "
        "Lengths are characters / 4. The floor is what guessing without reading would reach.\n"
    )
    notes = [f"- {name}: {text}" for name, text in _NOTES.items()]
    return "\n".join([*parts, "## Results\n", head, *notes, "", *lines]) + "\n"


def _percent(value: float) -> str:
    return f"{100 * value:.0f}"


def _cell(row: Result) -> str:
    """A result as a table's cell: "97 [95, 99] of 400, floor 25"."""
    if row["value"] is None:
        return "-"
    text = f"{with_interval(_percent, row['value'], row['low'], row['high'])} of {row['n']}"
    text += "" if row["floor"] is None else f", floor {_percent(row['floor'])}"
    return text + (f", {row['failed']} failed" if row["failed"] else "")


def tables(results: Sequence[Result]) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield (heading, rows of cells, the head first) for each skill and measure. results: as in
    Card."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for row in results:
        groups.setdefault((row["skill"], row["measure"]), []).append(row)
    for (skill, measure), rows in groups.items():
        texts, kinds = (list(dict.fromkeys(row[key] for row in rows)) for key in ("text", "asked"))
        cells = {(row["asked"], row["text"]): _cell(row) for row in rows}
        body = [[name, *(cells.get((name, text), "") for text in texts)] for name in kinds]
        yield f"{skill}: {measure}", [["", *texts], *body]


def write_card(card: Card, to: Path | None = None) -> Path:
    """Write card.json and CARD.md beside the weights, or into the folder `to`; returns it. Raises
    OSError."""
    to = to or card.folder
    values = {part.name: getattr(card, part.name) for part in fields(card) if part.name != "folder"}
    to.mkdir(parents=True, exist_ok=True)
    (to / "CARD.md").write_text(card_page(card), encoding="utf-8")
    write_json(to / "card.json", values)
    return to
