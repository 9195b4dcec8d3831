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
    """A question and its proof.

    Args:
        text: The question in words.
        query: What it asks of the facts.
        answer: What they prove.
        supports: The facts of the proof; () if it is unanswerable.
        kind: "path", "comparison", "same" or "unanswerable".
    """

    text: str
    query: Query
    answer: str
    supports: tuple[Fact, ...]
    kind: str = "path"

    @property
    def hops(self) -> int:
        """Steps from the names in the question to its answer; a comparison has one more for each
        side."""
        if isinstance(self.query, Path):
            return len(self.query.steps)
        return len(self.supports)

    @property
    def relation(self) -> str:
        """The relation that the answer is read from."""
        return paths(self.query)[0].steps[-1].removeprefix(INVERSE)


class GrowingText:
    """Facts and sentences that grow until a room of characters is used."""

    def __init__(self, schema: Schema, dice: Dice, room: int, head: int = 0) -> None:
        """Begin without a fact.

        Args:
            schema: The relations and their wording.
            dice: Draws all that is random.
            room: Characters of all sentences.
            head: Characters of a title beside its subject; 0 for no title.
        """
        self.schema = schema
        self.dice = dice
        self.room = room
        self.head = head
        self.base = FactBase()
        self.subjects: dict[str, list[tuple[Fact, str]]] = {}
        self.known: dict[str, list[str]] = {}
        self.named: set[str] = set()
        self.used = 0
        self.full = False
        self._namer = Namer(dice)
        self._waiting: dict[str, list[str]] = {}
        self._more = (2, 6)  # facts of a subject beyond its first
        if room < 4000:
            self._more = (0, 2)

    def thing(self, kind: str) -> str:
        """A value of the kind, or a name that was not used before."""
        if kind in VALUES:
            return make_value(kind, self.dice)
        name = self._namer.fresh(kind)
        if kind == "keepsake":
            return f"the {self.dice.pick(NOUNS)} {name}"
        return name

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
        if self.head and fact.subject not in self.subjects:
            cost += len(fact.subject) + self.head  # its title
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
        """State the facts of a path through new things; return the last thing.

        Args:
            start: Where the path begins.
            steps: Its relations.
            end: Where it ends; None for a new thing.
        """
        here = start
        for at, step in enumerate(steps):
            there = end
            if there is None or at < len(steps) - 1:
                there = self.fresh(self.schema.ends(step)[1])
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
        steps = self._steps_to_number(hops)
        relation = self.schema.relations[steps[-1]]
        kind = self.schema.ends(steps[0])[0]
        first = Path(self.fresh(kind), steps)
        second = Path(self.fresh(kind), steps)
        first_number = self.thing(relation.object)
        second_number = self.thing(relation.object)
        while first_number == second_number:
            second_number = self.thing(relation.object)
        self._walk(first.start, steps, first_number)
        self._walk(second.start, steps, second_number)
        smaller = "<" in relation.lines
        if smaller and ">" in relation.lines:
            smaller = self.dice.chance(0.5)
        return self._asked(Compare(first, second, smaller), "comparison")

    def _steps_to_number(self, hops: int) -> tuple[str, ...]:
        """A random relation to a number that can be compared; of 2 hops, to a person's birth."""
        names: list[str] = []
        for relation in self.schema.relations.values():
            to_number = "<" in relation.lines or ">" in relation.lines
            to_person = "@" in relation.lines and relation.object == "person"
            if (hops == 1 and to_number) or (hops == 2 and to_person):
                names.append(relation.name)
        if hops == 1:
            return (self.dice.pick(names),)
        return (self.dice.pick(names), "person.birth")

    def ask_same(self) -> Asked:
        """Add facts and ask whether two things have the same object, as often yes as no."""
        relation = self.dice.pick([r for r in self.schema.relations.values() if "&" in r.lines])
        first = Path(self.fresh(relation.subject), (relation.name,))
        second = Path(self.fresh(relation.subject), (relation.name,))
        end = self.fresh(relation.object)
        other_end = end
        if self.dice.chance(0.5):
            while other_end == end:
                other_end = self.fresh(relation.object)
        self.state(Fact(first.start, relation.name, end))
        self.state(Fact(second.start, relation.name, other_end))
        return self._asked(Same(first, second), "same")

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
        text = self.schema.ask(query, self.dice)
        question = Asked(text, query, answer, supports(query, self.base), kind)
        last = self.schema.relations[question.relation]
        # Of yes or no there is nothing that a fact could name.
        if not isinstance(query, Same) and last.object != "flag":
            self._distract(question, last)
        return question

    def _distract(self, question: Asked, last: Relation) -> None:
        """State one more fact with the answer in it, mostly as its object, that is no proof of it.

        last: the relation that the answer is read from.
        """
        answer = question.answer
        path = paths(question.query)[0]
        back = path.steps[-1].startswith(INVERSE)
        named = self.schema.ends(path.steps[-1])[1]  # the kind of thing that the answer is
        if question.kind == "comparison":  # it is one of the things that its paths start from
            named = self.schema.ends(path.steps[0])[0]
        as_object = [
            r for r in self.schema.to.get(named, ()) if (r.name, answer) not in self.base.closed
        ]
        if not back and question.kind == "path" and self.dice.chance(0.5):
            as_object = [last]  # the hardest one: the same relation of another subject
        if as_object and (named not in self.schema.of or self.dice.chance(0.7)):
            relation = self.dice.pick(as_object)
            self.state(Fact(self.fresh(relation.subject), relation.name, answer))
            return
        # Else the answer as the subject, of a relation that may still be stated of it.
        other = self.dice.pick(
            [r for r in self.schema.of[named] if self.base.allows(Fact(answer, r.name, ""))]
        )
        self.state(Fact(answer, other.name, self.fresh(other.object, waiting=True)))

    def fill(self, questions: Sequence[Asked], least: int = 0) -> None:
        """Add subjects, mostly of the kinds in `questions`, until the room is used, and `least`
        even without room."""
        alike: list[Relation] = []
        for question in questions:
            for step in paths(question.query)[0].steps:
                relation = self.schema.relations[step.removeprefix(INVERSE)]
                alike.append(relation)
        every = list(self.schema.relations.values())
        while not self.full or len(self.subjects) < least:
            must = len(self.subjects) < least
            relations = every
            if alike and self.dice.chance(_LOOK_ALIKE):
                relations = alike
            self._describe(self.dice.pick(relations), must)

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
        count = 0
        if not must:
            count = self.dice.between(*self._more)
        for relation in [first, *self.dice.shuffled(other_relations)[:count]]:
            thing = ""
            known = self.known.get(relation.object)
            if known and self.dice.chance(_REUSED):  # usually a thing that the text names already
                thing = self.dice.pick(known)
            if not thing or thing == subject or (relation.name, thing) in self.base.closed:
                thing = self.fresh(relation.object, waiting=True)
            self.state(Fact(subject, relation.name, thing), must)
