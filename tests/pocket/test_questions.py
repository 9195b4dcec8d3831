"""Questions out of facts: each has one proved answer, and what is called unanswerable has none."""

from functools import cache

import pytest

from harness.stats.rng import Dice
from pocket.tasks.recipes import SCHEMAS, Recipe
from pocket.tasks.scenes import show
from pocket.world.fact_graph import UNANSWERABLE, Asked
from pocket.world.facts import Compare, Fact, FactBase, Path, Same, prove
from pocket.world.questions import Asker

ASKS = ("one", "two", "compare", "same", "nothing")
TEXTS = 280


@cache
def askers() -> tuple[Asker, ...]:
    """Of texts of every kind: some sentences, or a whole document, in turn."""
    made = []
    for n in range(TEXTS):
        kind = [*SCHEMAS][n % len(SCHEMAS)]
        some = {"facts": (2, 30)} if n % 2 else {"tokens": (200, 600)}
        made.append(
            show(
                Recipe(skill="x", kinds=(kind,), ask={"one": 1, **({"two": n % 3} if n % 3 else {})}, **some),
                Dice("questions", n),
            ).asker
        )
    return tuple(made)


@cache
def asked(name: str) -> tuple[tuple[Asker, Asked], ...]:
    drawn = [(asker, getattr(asker, name)()) for asker in askers() for _ in range(3)]
    return tuple((asker, found) for asker, found in drawn if found is not None)


@pytest.mark.parametrize("name", [n for n in ASKS if n != "nothing"])
def test_the_answer_is_proved_and_is_the_only_one_and_no_support_is_too_many(name: str) -> None:
    assert len(asked(name)) > 300
    for asker, found in asked(name):
        assert prove(found.query, asker.base) == {found.answer}
        assert set(found.supports) <= set(asker.facts)
        assert len(set(found.supports)) == len(found.supports)
        assert prove(found.query, FactBase.of(found.supports)) == {found.answer}
        assert not any(prove(found.query, asker.base, without=fact) for fact in found.supports)


FACTS = (
    Fact("Velindra", "book.author", "Toren"),
    Fact("Julindra", "book.author", "Mirel"),
    Fact("Toren", "person.born", "Kelford"),
    Fact("Mirel", "person.born", "Kelford"),
    Fact("Toren", "person.birth", "1500"),
    Fact("Mirel", "person.birth", "1600"),
)
BY_QUERY = {
    Path("Velindra", ("book.author",)): "Toren",
    Path("Toren", ("^book.author",)): "Velindra",
    Path("Velindra", ("book.author", "person.born")): "Kelford",
    Path("Julindra", ("book.author", "person.birth")): "1600",
    Same(Path("Toren", ("person.born",)), Path("Mirel", ("person.born",))): "yes",
    Compare(Path("Toren", ("person.birth",)), Path("Mirel", ("person.birth",)), smaller=True): "Toren",
}


def test_answers_of_a_base_made_by_hand() -> None:
    asker = Asker("encyclopedia", FACTS, Dice("hand"))
    found = {a.query: a.answer for n in ASKS for _ in range(300) if (a := getattr(asker, n)()) is not None}
    assert {q: found.get(q) for q in BY_QUERY} == BY_QUERY
    # Two people were born there: no question leads back from the town.
    assert not any(
        isinstance(q, Path) and q.start == "Kelford" and len(q.steps) == 1 and found[q] != UNANSWERABLE for q in found
    )
    silent = [q for q, answer in found.items() if answer == UNANSWERABLE]
    told = {(f.subject, f.relation) for f in FACTS}
    assert silent
    assert all(isinstance(q, Path) and (q.start, q.steps[0]) not in told for q in silent)
