"""A document's facts, grown around its questions: first what proves the answers, then what only
looks like it.

    growth = GrowingText(schema("encyclopedia"), dice, room=4000)
    question = growth.ask_path(hops=2)  the facts that prove the answer, and one more that holds the answer and does not
    growth.fill([question])             look-alikes and others, until the room (characters) is used

`subjects` has the facts of each subject with their sentences, in the order they were added;
`known` all things by kind, `named` what the sentences name.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.stats.rng import Dice
from pocket.world.fact_proofs import (
    INVERSE,
    Compare,
    Fact,
    FactBase,
    Path,
    Query,
    Same,
    paths,
    prove,
    supports,
)
from pocket.world.names import VALUES, Namer, make_value
from pocket.world.templates import Relation, Schema

UNANSWERABLE = "unanswerable"
_LOOK_ALIKE = 0.6  # share of subjects that are of a kind the questions are about
_REUSED = 0.7  # share of objects that the text names already
NOUNS = (
    "lantern",
    "flute",
    "mirror",
    "compass",
    "clock",
    "chest",
    "violin",
    "globe",
    "chalice",
    "telescope",
)


@dataclass(frozen=True)
class Asked:
    """A question and its proof. supports: its facts, () if unanswerable; kind: path, comparison,
    same, unanswerable."""

    text: str
    query: Query
    answer: str
    supports: tuple[Fact, ...]
    kind: str = "path"

    @property
    def hops(self) -> int:
        """Steps from the names in the question to its answer; a comparison has one more for each
        side."""
        return len(self.query.steps) if isinstance(self.query, Path) else len(self.supports)

    @property
    def relation(self) -> str:
        """The relation that the answer is read from."""
        return paths(self.query)[0].steps[-1].removeprefix(INVERSE)


class GrowingText:
    """Facts and sentences, grown to `room` characters. head: characters of a title beside its
    subject, 0: no title."""

    def __init__(self, schema: Schema, dice: Dice, room: int, head: int = 0) -> None:
        self.schema, self.dice, self.room, self.head = schema, dice, room, head
        self.base = FactBase()
        self.subjects: dict[str, list[tuple[Fact, str]]] = {}
        self.known: dict[str, list[str]] = {}
        self.named: set[str] = set()
        self.used = 0
        self.full = False
        self._namer = Namer(dice)
        self._waiting: dict[str, list[str]] = {}
        self._more = (0, 2) if room < 4000 else (2, 6)  # facts of a subject beyond its first

    def thing(self, kind: str) -> str:
        """A value of the kind, or a name that was not used before."""
        if kind in VALUES:
            return make_value(kind, self.dice)
        name = self._namer.fresh(kind)
        return f"the {self.dice.pick(NOUNS)} {name}" if kind == "keepsake" else name

    def fresh(self, kind: str, waiting: bool = False) -> str:
        """A new thing that the text may name again; one that waits may get facts of its own
        later."""
        name = self.thing(kind)
        if kind not in VALUES:
            self.known.setdefault(kind, []).append(name)
            if waiting and kind in self.schema.of:
                self._waiting.setdefault(kind, []).append(name)
        return name

    def state(self, fact: Fact, must: bool = True) -> bool:
        """Add a sentence for the fact. False if it is not allowed, or not `must` and without
        room."""
        if not self.base.allows(fact):
            return False
        sentence = self.schema.say(fact, self.dice)
        cost = len(sentence) + 1
        if fact.subject not in self.subjects:
            cost += len(fact.subject) + self.head if self.head else 0  # its title
        if not must and self.used + cost > self.room:
            self.full = True
            return False
        self.base.add(fact)
        self.named.update((fact.subject, fact.object))
        self.used += cost
        self.subjects.setdefault(fact.subject, []).append((fact, sentence))
        return True

    def ask_path(self, hops: int) -> Asked:
        """Add the facts of a random route of `hops` steps; return the question for its end."""
        steps = self.dice.pick(self.schema.routes(hops))
        start = self.fresh(self.schema.ends(steps[0])[0])
        self._walk(start, steps)
        return self._asked(Path(start, steps), "path")

    def _walk(self, start: str, steps: Sequence[str], end: str | None = None) -> str:
        """State the facts of a path from `start` through new things, to `end` if given; return the
        last thing."""
        here = start
        for at, step in enumerate(steps):
            there = (
                self.fresh(self.schema.ends(step)[1]) if end is None or at < len(steps) - 1 else end
            )
            name = step.removeprefix(INVERSE)
            if step.startswith(INVERSE):
                self.state(Fact(there, name, here))
                self.base.closed.add((name, here))
            else:
                self.state(Fact(here, name, there))
            here = there
        return here

    def ask_which(self, hops: int) -> Asked:
        """Add facts on two new things; ask which has the smaller (or larger) number.

        hops: 1 compares their own numbers, 2 the births of their persons (which of two books has
        the older author).
        """
        dice, relations = self.dice, self.schema.relations.values()
        if hops == 1:
            steps: tuple[str, ...] = (
                dice.pick([r.name for r in relations if "<" in r.lines or ">" in r.lines]),
            )
        else:
            steps = (
                dice.pick([r.name for r in relations if "@" in r.lines and r.object == "person"]),
                "person.birth",
            )
        relation = self.schema.relations[steps[-1]]
        kind = self.schema.ends(steps[0])[0]
        paths = [Path(self.fresh(kind), steps) for _ in range(2)]
        first, second = self.thing(relation.object), self.thing(relation.object)
        while first == second:
            second = self.thing(relation.object)
        for path, end in zip(paths, (first, second), strict=True):
            self._walk(path.start, steps, end)
        smaller = "<" in relation.lines and (">" not in relation.lines or dice.chance(0.5))
        return self._asked(Compare(paths[0], paths[1], smaller), "comparison")

    def ask_same(self) -> Asked:
        """Add facts and ask whether two things have the same object, as often yes as no."""
        relation = self.dice.pick([r for r in self.schema.relations.values() if "&" in r.lines])
        paths = [Path(self.fresh(relation.subject), (relation.name,)) for _ in range(2)]
        first = self.fresh(relation.object)
        second = first
        if self.dice.chance(0.5):
            while second == first:
                second = self.fresh(relation.object)
        for path, end in zip(paths, (first, second), strict=True):
            self.state(Fact(path.start, relation.name, end))
        return self._asked(Same(paths[0], paths[1]), "same")

    def ask_nothing(self) -> Asked:
        """Ask something of a thing that the text never says of it; add facts that say it of another
        thing."""
        relation = self.dice.pick([r for r in self.schema.relations.values() if "?" in r.lines])
        start = self.fresh(relation.subject)
        self.base.silent.add((start, relation.name))
        other = self.dice.pick([r for r in self.schema.of[relation.subject] if r is not relation])
        self.state(Fact(start, other.name, self.fresh(other.object)))
        self.state(Fact(self.fresh(relation.subject), relation.name, self.fresh(relation.object)))
        query = Path(start, (relation.name,))
        return Asked(self.schema.ask(query, self.dice), query, UNANSWERABLE, (), "unanswerable")

    def _asked(self, query: Query, kind: str) -> Asked:
        """The query as a question with its answer and proof; states one more fact with the answer
        in it."""
        (answer,) = prove(query, self.base)
        question = Asked(
            self.schema.ask(query, self.dice), query, answer, supports(query, self.base), kind
        )
        # A distractor: one more fact with the answer in it, mostly as its object, that is no proof
        # of it.
        path = paths(query)[0]
        last = self.schema.relations[question.relation]
        if (
            isinstance(query, Same) or last.object == "flag"
        ):  # yes or no: nothing that a fact could name
            return question
        back = path.steps[-1].startswith(INVERSE)
        # A comparison is answered by one of the things that its paths start from, others by what
        # the path leads to.
        step, end = (path.steps[0], 0) if kind == "comparison" else (path.steps[-1], 1)
        named = self.schema.ends(step)[end]  # the kind of thing that the answer is
        as_object = [
            r for r in self.schema.to.get(named, ()) if (r.name, answer) not in self.base.closed
        ]
        if not back and kind == "path" and self.dice.chance(0.5):
            as_object = [last]  # the hardest one: the same relation of another subject
        if as_object and (named not in self.schema.of or self.dice.chance(0.7)):
            relation = self.dice.pick(as_object)
            self.state(Fact(self.fresh(relation.subject), relation.name, answer))
            return question
        # Else the answer as the subject, of a relation that may still be stated of it.
        other = self.dice.pick(
            [r for r in self.schema.of[named] if self.base.allows(Fact(answer, r.name, ""))]
        )
        self.state(Fact(answer, other.name, self.fresh(other.object, waiting=True)))
        return question

    def fill(self, questions: Sequence[Asked], least: int = 0) -> None:
        """Add subjects, mostly of the kinds in `questions`, until the room is used, and `least`
        even without room."""
        steps = [step for question in questions for step in paths(question.query)[0].steps]
        alike = [self.schema.relations[step.removeprefix(INVERSE)] for step in steps]
        relations = tuple(self.schema.relations.values())
        while not self.full or len(self.subjects) < least:
            must = len(self.subjects) < least
            first = self.dice.pick(alike if alike and self.dice.chance(_LOOK_ALIKE) else relations)
            self._describe(first, must)

    def _describe(self, first: Relation, must: bool) -> None:
        """Add a subject with the relation `first` and usually some more. must: even without room,
        `first` alone."""
        kind = first.subject
        waiting = self._waiting.get(kind)
        if waiting and self.dice.chance(0.5):
            at = self.dice.below(len(waiting))
            waiting[at], waiting[-1] = waiting[-1], waiting[at]
            subject = waiting.pop()
        else:
            subject = self.fresh(kind)
        other_relations = [r for r in self.schema.of[kind] if r is not first]
        count = 0 if must else self.dice.between(*self._more)
        for relation in [first, *self.dice.shuffled(other_relations)[:count]]:
            thing, known = "", self.known.get(relation.object)
            if known and self.dice.chance(_REUSED):  # usually a thing that the text names already
                thing = self.dice.pick(known)
            if not thing or thing == subject or (relation.name, thing) in self.base.closed:
                thing = self.fresh(relation.object, waiting=True)
            self.state(Fact(subject, relation.name, thing), must)
