"""Every kind of scene by name, the scenes of one text, and the skills of every method preset under
profile pocket."""

from collections.abc import Callable, Iterator
from functools import cache

from harness_training.skills import declared_skills
from harness_training.tasks import Scene, Skill

from harness.config import presets
from harness.config.yaml_tree import mapping_at
from harness.errors import UnknownName
from harness.stats.rng import Dice
from pocket.tasks import entity_memory, refinement, scenes, tree_walk
from pocket.tasks.recipes import Recipe as Recipe
from pocket.tasks.shown_text import ShownText
from pocket.world.sample import Purpose

SceneMaker = Callable[[Recipe, ShownText, Dice], Iterator[Scene]]
"""(what the scenes should be like, the text that they are about, what random choices are drawn
from) -> the scenes."""

SCENES: dict[str, SceneMaker] = {
    "question": scenes.answers,
    "choice": scenes.choices,
    "sufficiency": scenes.sufficiency,
    "points": scenes.points,
    "summary": scenes.summary,
    "gathered": scenes.gathered,
    "followed": scenes.followed,
    "guessed": scenes.guessed,
    "shortened": tree_walk.shortened,
    "triage": tree_walk.triage,
    "leaf": tree_walk.leaf,
    "breadth": refinement.breadth,
    "outline": refinement.outline,
    "titles": refinement.titles,
    "entities": entity_memory.entities,
    "relations": entity_memory.relations,
    "doubts": entity_memory.doubts,
    "fusion": entity_memory.fusion,
    "reflection": entity_memory.reflection,
    "trial": entity_memory.trial,
    "elaborated": entity_memory.elaborated,
    "decomposed": entity_memory.decomposed,
    "lookup": entity_memory.lookup,
    "pause": entity_memory.pause,
}


def make_scenes(
    recipe: Recipe, scene: str, dice: Dice, purpose: Purpose = "training"
) -> Iterator[Scene]:
    """Make a text and yield its scenes of a kind; there may be none, where the text allows none.

    Args:
        recipe: What text and scenes should be like.
        scene: The kind of scene, one of SCENES.
        dice: Draws all that is random.
        purpose: Whether the text is to train on or to test on.

    Raises:
        UnknownName: There is no such kind.
    """
    if scene not in SCENES:
        raise UnknownName("kind of scene", scene, SCENES)
    yield from SCENES[scene](recipe, scenes.make_text(recipe, dice, purpose), dice)


@cache
def skills() -> dict[str, Skill]:
    """Name -> skill, for all skills that methods declare with the parameters and prompts of profile
    pocket."""
    return declared_skills(profile_methods())


def profile_methods() -> dict[str, dict[str, object]]:
    """Preset of a method -> the parameters that profile pocket sets for it."""
    ((_, values),) = presets.read("profiles", "pocket")
    methods = mapping_at(values, "methods")
    return {name: mapping_at(methods, name) for name in methods}
