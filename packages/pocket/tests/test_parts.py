"""The parts: names, values, facts and the prover, wording, questions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pocket.world.fact_proofs import Compare, Fact, FactBase, Path, Same, prove, supporting_facts
from pocket.world.facts_and_distractors import UNANSWERABLE
from pocket.world.names import aliases
from pocket.world.questions import Asker

from harness.stats.rng import Dice
from packages.pocket.tests.reading import without


@pytest.mark.parametrize(
    ("answer", "others"),
    [
        ("212 kilometres", ("212",)),
        ("81.3 points", ("81.3",)),
        ("the mill", ("mill",)),
        ("the lantern Velax", ("lantern Velax", "Velax")),
        ("Kelford", ()),
        ("weaver", ()),
    ],
)
def test_aliases(answer, others):
    assert aliases(answer) == others


def base(*facts):
    return FactBase.of(Fact(*fact) for fact in facts)


BOOKS = base(
    ("B1", "author", "P1"), ("B2", "author", "P2"), ("P1", "born", "T1"), ("P2", "born", "T1"),
    ("P1", "year", "1500"), ("P2", "year", "1600"), ("P3", "year", "1500"), ("T2", "mayor", "P1"),
)  # fmt: skip
PROOFS = [
    (Path("B1", ("author", "born")), {"T1"}, 2),
    (Path("B1", ("author", "^mayor")), {"T2"}, 2),
    (Path("T1", ("^born",)), {"P1", "P2"}, 2),
    (Path("nobody", ("born",)), set(), 0),
    (Compare(Path("P1", ("year",)), Path("P2", ("year",)), smaller=True), {"P1"}, 2),
    (Compare(Path("P1", ("year",)), Path("P2", ("year",)), smaller=False), {"P2"}, 2),
    (
        Compare(Path("B1", ("author", "year")), Path("B2", ("author", "year")), smaller=True),
        {"B1"},
        4,
    ),
    (Compare(Path("P1", ("year",)), Path("P3", ("year",)), smaller=True), set(), 2),
    (Compare(Path("P1", ("year",)), Path("T1", ("year",)), smaller=True), set(), 1),
    (Same(Path("P1", ("born",)), Path("P2", ("born",))), {"yes"}, 2),
    (Same(Path("P1", ("year",)), Path("P2", ("year",))), {"no"}, 2),
    (Same(Path("P1", ("born",)), Path("P3", ("born",))), set(), 1),
]


@pytest.mark.parametrize(("query", "answers", "used"), PROOFS)
def test_prove(query, answers, used):
    assert prove(query, BOOKS) == answers
    assert len(supporting_facts(query, BOOKS)) == used
    if len(answers) == 1:
        assert all(
            not prove(query, without(fact, BOOKS)) for fact in supporting_facts(query, BOOKS)
        )


links = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("rs"), st.sampled_from("abcd")), max_size=8
)
steps = st.lists(st.sampled_from(["r", "s", "^r", "^s"]), min_size=1, max_size=4).map(tuple)


@given(facts=links, path=st.builds(Path, st.sampled_from("abcd"), steps))
@settings(max_examples=200, deadline=None)
def test_the_prover_agrees_with_a_search_of_all_chains(facts, path):
    made, kept = FactBase(), []
    for fact in (Fact(*f) for f in facts):
        if made.allows(fact):
            made.add(fact)
            kept.append(fact)
    ends = {path.start}
    for step in path.steps:
        forward = {(f.subject, f.object) for f in kept if f.relation == step}
        back = {(f.object, f.subject) for f in kept if "^" + f.relation == step}
        ends = {there for here, there in forward | back if here in ends}
    assert prove(path, made) == ends


def test_a_fact_base_keeps_its_promises():
    made = base(("B1", "author", "P1"))
    made.closed_objects.add(("author", "P1"))
    made.silent_subjects.add(("B9", "author"))
    for fact in (
        Fact("B1", "author", "P2"),
        Fact("B2", "author", "P1"),
        Fact("B9", "author", "P3"),
    ):
        assert not made.allows(fact)
        with pytest.raises(ValueError, match="contradicts"):
            made.add(fact)
    assert made.allows(Fact("B2", "author", "P2"))


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
    Compare(
        Path("Toren", ("person.birth",)), Path("Mirel", ("person.birth",)), smaller=True
    ): "Toren",
}


def test_answers_of_a_base_made_by_hand():
    asker = Asker("encyclopedia", FACTS, Dice("hand"))
    found = {
        a.query: a.answer
        for n in ASKS
        for _ in range(300)
        if (a := getattr(asker, n)()) is not None
    }
    assert {q: found.get(q) for q in BY_QUERY} == BY_QUERY
    # Two people were born there: no question leads back from the town.
    back = [q for q in found if isinstance(q, Path) and q.start == "Kelford" and len(q.steps) == 1]
    assert not any(found[q] != UNANSWERABLE for q in back)
    silent = [q for q, answer in found.items() if answer == UNANSWERABLE]
    stated = {(f.subject, f.relation) for f in FACTS}
    assert silent
    assert all(isinstance(q, Path) and (q.start, q.steps[0]) not in stated for q in silent)
