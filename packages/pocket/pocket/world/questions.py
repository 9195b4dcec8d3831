"""All questions that a set of facts answers, and some that it does not: what makes a text worth
training on.

    Asker("encyclopedia", facts, dice).one()        an Asked, or None where the facts allow none

Every answer is proved (pocket.world.fact_proofs.prove), never read off the sentence.
"""

from collections.abc import Iterable, Sequence

from harness.stats.rng import Dice
from pocket.world.fact_proofs import (
    INVERSE,
    Compare,
    Fact,
    FactBase,
    Path,
    Query,
    Same,
    number,
    prove,
    supports,
)
from pocket.world.facts_and_distractors import UNANSWERABLE, Asked
from pocket.world.templates import schema

_TRIES = 12


def _path_of(fact: Fact) -> Path:
    """The path of one step that a fact takes from its subject."""
    return Path(fact.subject, (fact.relation,))


class Asker:
    """Draws questions about `facts`, which are all of one schema and contradict each other
    nowhere."""

    def __init__(self, name: str, facts: Iterable[Fact], dice: Dice) -> None:
        self.schema = schema(name)
        self.dice = dice
        self.facts = list(facts)
        self.base = FactBase.of(self.facts)
        self._touching: dict[str, list[Fact]] = {}
        for fact in self.facts:
            self._touching.setdefault(fact.subject, []).append(fact)
            self._touching.setdefault(fact.object, []).append(fact)

    def _ask_unique(self, query: Query, kind: str) -> Asked | None:
        """The query as a question of `kind` (Asked.kind) with its proof; None unless it has exactly
        one answer."""
        ends = prove(query, self.base)
        if len(ends) != 1:
            return None
        (answer,) = ends
        return Asked(
            self.schema.ask(query, self.dice), query, answer, supports(query, self.base), kind
        )

    def _step_from(self, fact: Fact, start: str) -> str:
        """The step by which a fact leads on from one of its ends."""
        if fact.subject == start:
            return fact.relation
        return INVERSE + fact.relation

    def one(self) -> Asked | None:
        """A question of one hop; None where the facts allow none."""
        for _ in range(_TRIES):
            fact = self.dice.pick(self.facts)
            relation = self.schema.relations[fact.relation]
            back = "!" in relation.lines and ("?" not in relation.lines or self.dice.chance(0.3))
            if back:
                path = Path(fact.object, (INVERSE + fact.relation,))
            elif "?" in relation.lines:
                path = Path(fact.subject, (fact.relation,))
            else:
                continue
            question = self._ask_unique(path, "path")
            if question is not None:
                return question
        return None

    def two(self) -> Asked | None:
        """A question of two hops, as "Where was the author of X born?"; None without any.

        It goes from one end of a fact (start) to its other end (middle), and from there to the
        other end of a second fact, by two steps that the schema has a question for.
        """
        routes = self.schema.routes(2)
        for _ in range(_TRIES):
            first = self.dice.pick(self.facts)
            start, middle = self.dice.shuffled((first.subject, first.object))
            second = self.dice.pick(self._touching[middle])
            if second == first:
                continue
            steps = (self._step_from(first, start), self._step_from(second, middle))
            if steps not in routes:
                continue
            question = self._ask_unique(Path(start, steps), "path")
            # More than two supports: one of the steps leads to several things, though all lead to
            # one answer.
            if question is not None and question.answer != start and len(question.supports) == 2:
                return question
        return None

    def _comparable_facts(self, marks: Sequence[str]) -> tuple[Fact, Fact] | None:
        """Two facts of one relation and two subjects; None without any. marks: of a question, see
        templates."""
        candidates: list[Fact] = []
        for fact in self.facts:
            lines = self.schema.relations[fact.relation].lines
            if not lines.keys().isdisjoint(marks):
                candidates.append(fact)
        if len(candidates) < 2:
            return None
        for _ in range(_TRIES):
            first = self.dice.pick(candidates)
            second = self.dice.pick([f for f in candidates if f.relation == first.relation])
            if first.subject != second.subject:
                return first, second
        return None

    def compare(self) -> Asked | None:
        """Ask which of two things has the smaller or larger number; None where no two can be
        compared."""
        pair = self._comparable_facts("<>")
        if pair is None or number(pair[0].object) == number(pair[1].object):
            return None
        marks = [m for m in "<>" if m in self.schema.relations[pair[0].relation].lines]
        smaller = self.dice.pick(marks) == "<"
        first, second = map(_path_of, pair)
        return self._ask_unique(Compare(first, second, smaller), "comparison")

    def same(self) -> Asked | None:
        """Ask whether two things have the same object, yes as often as no if possible; None without
        two to compare."""
        answer = "no"
        if self.dice.chance(0.5):
            answer = "yes"
        question = None
        for _ in range(_TRIES):
            pair = self._comparable_facts("&")
            if pair is None:
                return None
            first, second = map(_path_of, pair)
            question = self._ask_unique(Same(first, second), "same")
            if question is not None and question.answer == answer:
                return question
        return question

    def nothing(self) -> Asked | None:
        """A question about a thing in the facts that they could answer but do not; None where there
        is none."""
        for _ in range(_TRIES):
            subject = self.dice.pick(self.facts).subject
            kind = self.schema.relations[self._touching[subject][0].relation].subject
            asks = [r for r in self.schema.of.get(kind, ()) if "?" in r.lines]
            if not asks or self._touching[subject][0].subject != subject:
                continue
            query = Path(subject, (self.dice.pick(asks).name,))
            if not prove(query, self.base):
                return Asked(
                    self.schema.ask(query, self.dice), query, UNANSWERABLE, (), "unanswerable"
                )
        return None
