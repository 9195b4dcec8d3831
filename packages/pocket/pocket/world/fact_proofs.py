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

INVERSE = "^"


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement of a text: the `relation` of `subject` is `object`."""

    subject: str
    relation: str
    object: str


@dataclass(frozen=True, slots=True)
class Path:
    """A path from `start` along `steps`: relations, or "^relation" from object to subject."""

    start: str
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """Which of two starts leads to the smaller (or larger) number."""

    first: Path
    second: Path
    smaller: bool


@dataclass(frozen=True, slots=True)
class Same:
    """Whether two paths lead to the same thing: "yes" or "no"."""

    first: Path
    second: Path


Query = Path | Compare | Same


@dataclass
class FactBase:
    """Facts in the order they were added, indexed by both ends.

    Args:
        facts: The facts.
        closed: (relation, object) to which no further fact leads.
        silent: (subject, relation) that is never stated.
    """

    facts: list[Fact] = field(default_factory=list)
    closed: set[tuple[str, str]] = field(default_factory=set)
    silent: set[tuple[str, str]] = field(default_factory=set)
    _forward: dict[tuple[str, str], Fact] = field(default_factory=dict)
    _backward: dict[tuple[str, str], list[Fact]] = field(default_factory=dict)

    @classmethod
    def of(cls, facts: Iterable[Fact]) -> FactBase:
        """A base of these facts. Raises ValueError where they contradict each other."""
        base = cls()
        for fact in facts:
            base.add(fact)
        return base

    def allows(self, fact: Fact) -> bool:
        """Whether the fact may be added: no fact is stated twice, and no proof of a question
        changes."""
        key = (fact.subject, fact.relation)
        return (
            key not in self._forward
            and key not in self.silent
            and (fact.relation, fact.object) not in self.closed
        )

    def add(self, fact: Fact) -> None:
        """Take a fact in. Raises ValueError where `allows` says no."""
        if not self.allows(fact):
            raise ValueError(f"{fact} contradicts what is known")
        self.facts.append(fact)
        self._forward[fact.subject, fact.relation] = fact
        self._backward.setdefault((fact.relation, fact.object), []).append(fact)

    def step(self, thing: str, step: str) -> list[Fact]:
        """The facts by which `step` leads on from `thing`: a relation, or "^relation" from object
        to subject."""
        if step.startswith(INVERSE):
            return self._backward.get((step[1:], thing), [])
        fact = self._forward.get((thing, step))
        if fact is None:
            return []
        return [fact]


def number(text: str) -> int:
    """The digits of a value as a whole number; values of one relation have equally many
    decimals."""
    return int("".join(filter(str.isdigit, text)))


def _follow(path: Path, base: FactBase) -> tuple[frozenset[str], list[Fact]]:
    """The things at the end of a path, and the facts on the way."""
    reached = {path.start}
    used: list[Fact] = []
    for step in path.steps:
        facts: list[Fact] = []
        for thing in sorted(reached):
            facts += base.step(thing, step)
        used += facts
        reached = {_end_of(fact, step) for fact in facts}
    return frozenset(reached), used


def _end_of(fact: Fact, step: str) -> str:
    """The thing that a step by a fact leads to."""
    if step.startswith(INVERSE):
        return fact.subject
    return fact.object


def paths(query: Query) -> tuple[Path, ...]:
    """The path of a question, or both of a comparison."""
    if isinstance(query, Path):
        return (query,)
    return (query.first, query.second)


def prove(query: Query, base: FactBase) -> frozenset[str]:
    """Every answer that the facts prove. A tie or an open end proves none."""
    ends = [_follow(path, base)[0] for path in paths(query)]
    if isinstance(query, Path):
        return ends[0]
    if any(len(end) != 1 for end in ends):
        return frozenset()
    (first,), (second,) = ends
    if isinstance(query, Same):
        if first == second:
            return frozenset(("yes",))
        return frozenset(("no",))
    if number(first) == number(second):
        return frozenset()
    if (number(first) < number(second)) == query.smaller:
        return frozenset((query.first.start,))
    return frozenset((query.second.start,))


def supports(query: Query, base: FactBase) -> tuple[Fact, ...]:
    """The facts that the proof uses, in the order of its steps, none twice."""
    facts: dict[Fact, None] = {}
    for path in paths(query):
        facts.update(dict.fromkeys(_follow(path, base)[1]))
    return tuple(facts)
