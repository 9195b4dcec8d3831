"""The exam of the pocket model: every skill on fresh texts of evaluation seeds, through real
sessions.

    rows = examine(model, questions=100, seed=0, progress=print)
    cells(skill)            what is asked of a skill: a table of cells, a kind of question by a kind of text
    default_cell("points")  the one cell of a kind of scene at 250 tokens, for a skill that has no table

metrics.py has the measures. Nothing here depends on how the model was trained. A token is four
characters here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice

from harness_training.exam import pick_scene, record_scene
from harness_training.tasks import SceneOutcome, Skill

from harness.models import LanguageModel
from harness.stats.rng import Dice
from pocket.card import Result
from pocket.eval.metrics import Sitting, measure
from pocket.tasks.catalog import SCENES
from pocket.tasks.catalog import skills as declared
from pocket.tasks.recipes import Recipe
from pocket.tasks.scenes import make_text
from pocket.world.facts_and_distractors import ProvedQuestion

KINDS_READ = ("musique", "narrativeqa", "qasper")  # one kind of each of the three schemas
NEEDED_FACTS_ONLY = "needed facts only"
QUESTION_KINDS = {
    "one": "one hop",
    "two": "two hops",
    "compare": "compare",
    "same": "same (yes/no)",
    "nothing": "unanswerable",
}
_TEXT_KINDS_OF_QUESTION = {
    "one": KINDS_READ,
    "two": KINDS_READ,
    "compare": ("hotpotqa", "qasper"),
    "same": ("hotpotqa", "qasper"),
}
# For "nothing": only the papers' instruction speaks of what the text does not say.
_PAPER_KINDS = ("qasper",)
_CHOICE_KINDS = ("quality",)
_DOCUMENT_TOKENS = (250, 500, 1000, 1500)
_TOKENS_PER_FACT = 15  # tokens of a sentence, about
_FACTS_DRAWN = 12  # facts drawn, from which the needed ones are taken
# Texts a question may take until one allows it; the rarest, comparisons in a story, take 5 on
# average.
_TEXTS_PER_QUESTION = 60
_MIN_QUESTIONS = 2


@dataclass(frozen=True)
class Cell:
    """One cell of the exam's tables: a kind of question about a kind of text.

    Args:
        asked: The row of its table, a kind of question.
        text: The column of its table, a kind of text.
        recipe: How its texts are made.
        ask: The kind of question, a key of QUESTION_KINDS; None if the scene has none or several
            kinds.
        needed: Whether only the facts that prove the answer are shown.
        share: How many of the exam's questions a cell it has, as a share.
    """

    asked: str
    text: str
    recipe: Recipe
    ask: str | None = None
    needed: bool = False
    share: float = 1.0


def _cells_by_size(skill: str, ask: str, kinds: tuple[str, ...]) -> list[Cell]:
    """Cells of one kind of question: over 8 facts, and over whole documents of each length.

    Args:
        skill: The skill's name.
        ask: The kind of question, a key of QUESTION_KINDS.
        kinds: The kinds of text.
    """
    recipe_of_facts = Recipe(skill=skill, kinds=kinds, ask={ask: 1.0}, facts=(8, 8))
    cells = [Cell(QUESTION_KINDS[ask], "8 facts", recipe_of_facts, ask)]
    for n_tokens in _DOCUMENT_TOKENS:
        recipe_of_tokens = Recipe(
            skill=skill, kinds=kinds, ask={ask: 1.0}, tokens=(n_tokens, n_tokens)
        )
        cells.append(Cell(QUESTION_KINDS[ask], f"{n_tokens} tokens", recipe_of_tokens, ask))
    return cells


def _answer_cells(skill: str) -> list[Cell]:
    """The cells of a skill that answers questions: each kind of question over the needed facts
    alone, over 8 facts, and over whole documents."""
    skill_cells: list[Cell] = []
    for ask in QUESTION_KINDS:
        kinds = _TEXT_KINDS_OF_QUESTION.get(ask, _PAPER_KINDS)
        if ask != "nothing":  # a question that the text does not answer has no needed facts
            recipe = Recipe(
                skill=skill, kinds=kinds, facts=(_FACTS_DRAWN, _FACTS_DRAWN), ask={ask: 1.0}
            )
            cell_of_needed_facts = Cell(
                asked=QUESTION_KINDS[ask],
                text=NEEDED_FACTS_ONLY,
                recipe=recipe,
                ask=ask,
                needed=True,
            )
            skill_cells.append(cell_of_needed_facts)
        skill_cells += _cells_by_size(skill, ask, kinds)
    return skill_cells


def _sentences_in(tokens: int) -> tuple[int, int]:
    """About how many sentences have so many tokens, as the least and the most of a recipe."""
    n_sentences = tokens // _TOKENS_PER_FACT
    return n_sentences, n_sentences


def _search_cells(skill: str) -> list[Cell]:
    """The cells of a skill that searches: one and two hops over 250 and 500 tokens, which come as
    points one by one, or as chunks of about 100 tokens that cut sentences."""
    skill_cells: list[Cell] = []
    for ask in ("one", "two"):
        for n_tokens in (250, 500):
            # Separate sentences; any `pieces` above 1 makes each a part of its own.
            recipe_of_points = Recipe(
                skill=skill,
                kinds=KINDS_READ,
                facts=_sentences_in(n_tokens),
                pieces=2,
                ask={ask: 1.0},
            )
            # A whole document, cut into at most that many parts.
            recipe_of_chunks = Recipe(
                skill=skill,
                kinds=KINDS_READ,
                tokens=(n_tokens, n_tokens),
                pieces=n_tokens // 100 + 1,
                ask={ask: 1.0},
            )
            skill_cells.append(
                Cell(QUESTION_KINDS[ask], f"points, {n_tokens} tokens", recipe_of_points, ask)
            )
            skill_cells.append(
                Cell(QUESTION_KINDS[ask], f"chunks, {n_tokens} tokens", recipe_of_chunks, ask)
            )
    return skill_cells


def _points_cells(skill: str) -> list[Cell]:
    """The cells of a skill that writes points: texts of 100, 250 and 400 tokens. Those of 100 are
    single sentences, as a document has 200 tokens at least."""
    sentences = Recipe(skill=skill, kinds=KINDS_READ, facts=(7, 7))
    skill_cells = [Cell("points", "100 tokens", sentences, share=0.25)]
    for n_tokens in (250, 400):
        document = Recipe(skill=skill, kinds=KINDS_READ, tokens=(n_tokens, n_tokens), pieces=2)
        skill_cells.append(Cell("points", f"{n_tokens} tokens", document, share=0.25))
    return skill_cells


def _gathered_cells(skill: str) -> list[Cell]:
    """The cells of a skill that lists the names which bullet points are about: points of 100, 250
    and 400 tokens, and points of a whole document. Each sentence is a bullet point, as
    `pieces` is above 1."""
    skill_cells: list[Cell] = []
    for n_tokens in (100, 250, 400):
        points = Recipe(skill=skill, kinds=KINDS_READ, facts=_sentences_in(n_tokens), pieces=2)
        skill_cells.append(Cell("names", f"{n_tokens} tokens", points, share=0.25))
    document = Recipe(skill=skill, kinds=KINDS_READ, tokens=(1640, 1640), pieces=2)
    skill_cells.append(Cell("names", "of a document", document, share=0.5))
    return skill_cells


def _choice_cells(skill: str) -> list[Cell]:
    """The cells of a skill that chooses among options: one and two hops, over 8 facts and over
    whole documents."""
    return [
        *_cells_by_size(skill, "one", _CHOICE_KINDS),
        *_cells_by_size(skill, "two", _CHOICE_KINDS),
    ]


_CELLS_OF_SKILL: dict[str, Callable[[str], list[Cell]]] = {
    "answer": _answer_cells,
    "choose": _choice_cells,
    "pecan search": _search_cells,
    "pecan points": _points_cells,
    "pecan points of points": _gathered_cells,
}


def default_cell(scene: str, skill: str = "") -> Cell:
    """The one cell of a skill that the exam has no table for: one and two hops at 250 tokens, in
    the form that its kind of scene needs: separate sentences for "gathered", else a document, cut
    into up to two or three parts for some kinds. Kinds whose scene holds many points get a quarter
    of the questions.

    Args:
        scene: The kind of scene, one of pocket.tasks.catalog.SCENES.
        skill: The skill's name.
    """
    share = 1.0
    if scene in ("points", "gathered"):
        share = 0.25
    if scene == "gathered":
        recipe = Recipe(skill=skill, kinds=KINDS_READ, facts=_sentences_in(250), pieces=2)
        return Cell("one and two hops", "250 tokens", recipe, share=share)
    kinds: tuple[str, ...] = KINDS_READ
    if scene == "choice":
        kinds = _CHOICE_KINDS
    pieces = {"sufficiency": 3, "points": 2, "followed": 3}.get(scene, 1)
    ask = {"one": 1.0, "two": 1.0}
    recipe = Recipe(skill=skill, kinds=kinds, tokens=(250, 250), ask=ask, pieces=pieces)
    return Cell("one and two hops", "250 tokens", recipe, share=share)


def cells(skill: Skill) -> list[Cell]:
    """The cells of a skill in the exam; one for a skill that the exam has no table for."""
    if skill.name in _CELLS_OF_SKILL:
        return _CELLS_OF_SKILL[skill.name](skill.name)
    return [default_cell(skill.scene, skill.name)]


def _draw_sitting(skill: Skill, cell: Cell, dice: Dice) -> Sitting | None:
    """Draw a scene of a cell, not played yet; None where the drawn text allows no such question.
    Where the cell names a kind of question, that question is drawn first, so that its proof is
    known, and is the only one that the scene can ask; of a cell with the needed facts only, the
    text is the facts of that proof in random order.

    Args:
        skill: The skill, whose kind of scene it is.
        cell: The cell.
        dice: Draws text and question.
    """
    shown = make_text(cell.recipe, dice, "evaluation")
    question: ProvedQuestion | None = None
    if cell.ask is not None:
        question = getattr(shown.asker, cell.ask)()
        if question is None:
            return None
        # Whatever kind the scene asks for, it gets this question.
        asker = copy(shown.asker)
        for name in QUESTION_KINDS:
            setattr(asker, name, lambda: question)
        shown = replace(shown, asker=asker)
        if cell.needed:
            facts = tuple(dice.shuffled(question.supports))
            text = " ".join(shown.sentences[fact] for fact in facts)
            shown = replace(shown, texts=(text,), facts_by_part=(facts,))
    make_scenes_of_kind = SCENES[skill.scene]
    scenes = list(islice(make_scenes_of_kind(cell.recipe, shown, dice), 2))
    if not scenes:
        return None
    return Sitting(pick_scene(scenes, dice), outcome=SceneOutcome(), asked=question)


def draw_sittings(skill: Skill, cell: Cell, count: int, seed: int) -> Iterator[Sitting]:
    """Yield scenes of a cell that are not played yet, each about a text of its own; fewer than
    `count` where texts that allow the question are rare.

    They follow from cell, count and seed: skills with equal cells have the same texts.

    Args:
        skill: The skill, whose kind of scene they are.
        cell: The cell.
        count: How many.
        seed: Another seed gives other texts.
    """
    n_drawn = 0
    for attempt in range(count * _TEXTS_PER_QUESTION):
        if n_drawn == count:
            return
        dice = Dice("exam", seed, cell.asked, cell.text, attempt)
        sitting = _draw_sitting(skill, cell, dice)
        if sitting is not None:
            n_drawn += 1
            yield sitting


def examine(
    model: LanguageModel,
    *,
    questions: int,
    seed: int,
    progress: Callable[[str], None],
    skills: Iterable[Skill] | None = None,
) -> list[Result]:
    """Examine a model: ask it questions of each cell of each skill, and measure the replies.

    Args:
        model: The model.
        questions: How many of a cell; a quarter of that where a scene holds many points.
        seed: Another seed gives other texts and questions.
        progress: Called with a line for each cell.
        skills: By default all that method presets declare.

    Returns:
        A row for each skill, cell and measure.

    Raises:
        HarnessError: What the model raises, but for errors of a single question.
    """
    results: list[Result] = []
    if skills is None:
        skills = declared().values()
    for skill in skills:
        for cell in cells(skill):
            count = max(_MIN_QUESTIONS, round(questions * cell.share))
            sittings: list[Sitting] = []
            for sitting in draw_sittings(skill, cell, count, seed):
                outcome = record_scene(model, skill, sitting.scene)
                sittings.append(replace(sitting, outcome=outcome))
            results_of_cell = _rows_of_cell(skill, cell, sittings)
            results += results_of_cell
            results_in_words = ", ".join(map(_result_in_words, results_of_cell))
            progress(f"{skill.name}, {cell.asked}, {cell.text}: {results_in_words}")
    return results


def _rows_of_cell(skill: Skill, cell: Cell, sittings: Sequence[Sitting]) -> list[Result]:
    """A row for each measure of a cell.

    Args:
        skill: The skill.
        cell: The cell.
        sittings: Its scenes, played.
    """
    n_failed = sum(sitting.outcome.failed for sitting in sittings)
    results: list[Result] = []
    for name, measured in measure(skill.scene, sittings).items():
        row = Result(
            skill=skill.name,
            asked=cell.asked,
            text=cell.text,
            measure=name,
            value=measured.value.mean,
            low=measured.value.low,
            high=measured.value.high,
            n=measured.value.n,
            floor=measured.floor,
            failed=n_failed,
        )
        results.append(row)
    return results


def _result_in_words(row: Result) -> str:
    """A row in words: "exact match 97 % of 100"; "exact match - of 0" without a value."""
    share = "-"
    if row.value is not None:
        share = f"{100 * row.value:.0f} %"
    return f"{row.measure} {share} of {row.n}"
