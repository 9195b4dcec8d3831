"""The fact base of a document, and the proof that a question has exactly one answer in it.

    base.add(Fact("Velindra", "book.author", "Toren"))
    base.add(Fact("Toren", "person.born", "Kelford"))
    prove(Path("Velindra", ("book.author", "person.born")), base)               {"Kelford"}, without either fact {}

A subject has one object for a relation. A step "^book.author" goes from the object to the subject;
a question that takes such a step closes (relation, object) to further facts, so that it keeps its
one answer however the text grows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

INVERSE = "^"


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement of a text: the `relation` of `subject` is `object`."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True, slots=True)
class Path:
    """A question that follows facts: what is at the end of `steps` from `start`?

    Args:
        start: The thing that the question names.
        steps: Relations, from subject to object, or "^relation" from object to subject.
    """

    start: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """The question which of two things has the smaller (or larger) number.

    Args:
        first: The path from the first thing to its number.
        second: The path from the second thing to its number.
        smaller: Whether the smaller number is asked for.
    """

    first: Path
    second: Path
    smaller: bool


@dataclass(frozen=True, slots=True)
class Same:
    """The question whether two paths lead to the same thing; its answer is "yes" or "no".

    Args:
        first: One path.
        second: The other.
    """

    first: Path
    second: Path


Query = Path | Compare | Same


@dataclass
class FactBase:
    """Facts in the order they were added, indexed by subject and by object.

    Args:
        facts: The facts.
        closed_objects: Pairs (relation, object) that no further fact may have.
        silent_subjects: Pairs (subject, relation) that no fact may have.
    """

    facts: list[Fact] = field(default_factory=list)
    closed_objects: set[tuple[str, str]] = field(default_factory=set)
    silent_subjects: set[tuple[str, str]] = field(default_factory=set)
    _fact_of_subject: dict[tuple[str, str], Fact] = field(default_factory=dict)
    _facts_of_object: dict[tuple[str, str], list[Fact]] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: Iterable[Fact]) -> FactBase:
        """A base of these facts, added one after the other. Raises ValueError where they contradict
        each other."""
        fact_base = cls()
        for fact in facts:
            fact_base.add(fact)
        return fact_base

    def allows(self, fact: Fact) -> bool:
        """Whether the fact may be added.

        Its subject must have no object for that relation yet, and may not be silent on it (no fact
        may have the pair); nor may its object be closed (no further fact may have the pair), so
        that no question's answer changes.
        """
        subject_and_relation = (fact.subject, fact.relation)
        relation_and_object = (fact.relation, fact.object)
        return (
            subject_and_relation not in self._fact_of_subject
            and subject_and_relation not in self.silent_subjects
            and relation_and_object not in self.closed_objects
        )

    def add(self, fact: Fact) -> None:
        """Add a fact. Raises ValueError where `allows` says no."""
        if not self.allows(fact):
            raise ValueError(f"{fact} contradicts what is known")
        self.facts.append(fact)
        self._fact_of_subject[fact.subject, fact.relation] = fact
        self._facts_of_object.setdefault((fact.relation, fact.object), []).append(fact)

    def facts_of_step(self, thing: str, step: str) -> list[Fact]:
        """The facts by which one step leads on from a thing; [] for none. A subject has at most one
        fact of a relation, an object may have several.

        Args:
            thing: The thing.
            step: A relation, whose subject is the thing, or "^relation", whose object is the thing.
        """
        if step.startswith(INVERSE):
            return self._facts_of_object.get((step[1:], thing), [])
        fact = self._fact_of_subject.get((thing, step))
        if fact is None:
            return []
        return [fact]


def numeric_value(text: str) -> int:
    """The digits of a value as a whole number: "212 kilometres" -> 212, "81.3 points" -> 813.
    Values of one relation have equally many decimals, so they can be compared."""
    digits = "".join(filter(str.isdigit, text))
    return int(digits)


class _FollowedPath(NamedTuple):
    """Where a path leads.

    Attributes:
        ends: All things at its end, none if it breaks off.
        facts: The facts on the way, in the order of its steps.
    """

    ends: frozenset[str]
    facts: list[Fact]


def _follow_path(path: Path, base: FactBase) -> _FollowedPath:
    """Follow a path through the facts: the things at its end, and all facts on the way. A step may
    lead from one thing to several; then each of them is followed.

    Args:
        path: The path.
        base: The facts.
    """
    reached = {path.start}
    facts_on_the_way: list[Fact] = []
    for step in path.steps:
        facts_of_step: list[Fact] = []
        for thing in sorted(reached):
            facts_of_step += base.facts_of_step(thing, step)
        facts_on_the_way += facts_of_step
        reached = {_end_of(fact, step) for fact in facts_of_step}
    return _FollowedPath(frozenset(reached), facts_on_the_way)


def _end_of(fact: Fact, step: str) -> str:
    """The thing that a step by a fact leads to: its object, or its subject for a step
    "^relation"."""
    if step.startswith(INVERSE):
        return fact.subject
    return fact.object


def paths_of_query(query: Query) -> tuple[Path, ...]:
    """The paths that a question follows: its own, or both of a comparison."""
    if isinstance(query, Path):
        return (query,)
    return (query.first, query.second)


def prove(query: Query, base: FactBase) -> frozenset[str]:
    """Every answer to a question that the facts prove; a question can be asked where it is exactly
    one.

    For a path, the things at its end; for a comparison, the start of the path with the smaller (or
    larger) number, none where numbers are equal; for a question whether two paths end at the same
    thing, "yes" or "no". Of two paths each must end at exactly one thing, else there is no answer.

    Args:
        query: The question.
        base: The facts.
    """
    ends = [_follow_path(path, base).ends for path in paths_of_query(query)]
    if isinstance(query, Path):
        return ends[0]
    each_path_has_one_end = all(len(end) == 1 for end in ends)
    if not each_path_has_one_end:
        return frozenset()
    (first_end,), (second_end,) = ends  # the one thing at the end of each path
    if isinstance(query, Same):
        if first_end == second_end:
            return frozenset(("yes",))
        return frozenset(("no",))
    first_number = numeric_value(first_end)
    second_number = numeric_value(second_end)
    if first_number == second_number:
        return frozenset()
    is_first_smaller = first_number < second_number
    if is_first_smaller == query.smaller:
        return frozenset((query.first.start,))
    return frozenset((query.second.start,))


def supporting_facts(query: Query, base: FactBase) -> tuple[Fact, ...]:
    """The facts that the proof of a question uses, in the order of its steps, none twice.

    Args:
        query: The question.
        base: The facts.
    """
    facts: dict[Fact, None] = {}
    for path in paths_of_query(query):
        facts.update(dict.fromkeys(_follow_path(path, base).facts))
    return tuple(facts)
