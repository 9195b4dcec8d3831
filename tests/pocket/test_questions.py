"""Questions out of facts by hand; that each has one proved answer is in test_promises.py."""

from harness.stats.rng import Dice
from pocket.world.fact_graph import UNANSWERABLE
from pocket.world.facts import Compare, Fact, Path, Same
from pocket.world.questions import Asker

ASKS = ("one", "two", "compare", "same", "nothing")
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
    back = [q for q in found if isinstance(q, Path) and q.start == "Kelford" and len(q.steps) == 1]
    assert not any(found[q] != UNANSWERABLE for q in back)
    silent = [q for q, answer in found.items() if answer == UNANSWERABLE]
    told = {(f.subject, f.relation) for f in FACTS}
    assert silent
    assert all(isinstance(q, Path) and (q.start, q.steps[0]) not in told for q in silent)
