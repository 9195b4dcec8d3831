"""Relations and their wording: a table, and the sentences and questions made from it.

A block of a table is a relation: "subject-kind.name object-kind", then lines by their first mark:

    .  a statement             .+ .-  a statement of a relation whose object is yes or no
    ?  a question for the object      =  a noun phrase for the object     @  what the object is called: "author"
    !  a question for the subject     -  a noun phrase for the subject
    &  are they the same?             <  has the smaller number           >  has the larger number
    #  the section of a paper

{s} is the subject, {o} the object, {a} and {b} the two that are compared. Longer questions are
nested noun phrases:
"Where was {the person who wrote Velindra} born?"
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path as FilePath

from harness.stats.rng import Dice
from pocket.world.fact_proofs import INVERSE, Fact, Path, Query, Same, paths
from pocket.world.names import VALUES

_MARKS = (".+", ".-", ".", "?", "=", "@", "!", "-", "&", "<", ">", "#")
_WORDS = FilePath(__file__).with_name("words")
"""The tables; things in stories pass from hand to hand in their order."""
_TABLES = {"encyclopedia": ("encyclopedia", "places"), "story": ("story",), "paper": ("paper",)}
OPENERS = {
    "encyclopedia": (
        "As far as is known, ",
        "By all accounts, ",
        "It is certain that ",
        "The records agree that ",
    ),
    "story": ("In truth, ", "As it happened, ", "People said that "),
    "paper": ("In this work, ", "As in earlier studies, ", "Unless stated otherwise, "),
}
"""The phrases that a sentence may open with."""
_OPENED = 0.15
_FLAG_MARKS = {"yes": ".+", "no": ".-"}


@dataclass(frozen=True)
class Relation:
    """One block of a table.

    Args:
        name: "book.author".
        subject: The kind of thing that has it.
        object: The kind of thing that it leads to.
        rank: Its place in the table.
        lines: Mark -> the lines with that mark.
    """

    name: str
    subject: str
    object: str
    rank: int
    lines: dict[str, tuple[str, ...]] = field(hash=False)


def _capital(text: str) -> str:
    """The text with a capital at its beginning."""
    return text[0].upper() + text[1:]


class Schema:
    """The relations of one kind of text. `of`: kind of thing -> the relations that lead from it;
    `to`: kind of thing -> those that lead to it."""

    def __init__(self, name: str) -> None:
        """Read the tables of the kind `name` (their form is above). Raises ValueError for a line
        without a mark."""
        self.name = name
        self.relations: dict[str, Relation] = {}
        self.of: dict[str, tuple[Relation, ...]] = {}
        self.to: dict[str, tuple[Relation, ...]] = {}
        tables = [(_WORDS / f"{table}.txt").read_text("utf-8") for table in _TABLES[name]]
        table = "\n".join(tables)
        for rank, block in enumerate(table.strip().split("\n\n")):
            head, *rest = block.splitlines()
            key, object_kind = head.split()
            lines: dict[str, tuple[str, ...]] = {}
            for line in rest:
                mark, _, text = line.partition(" ")
                if mark not in _MARKS:
                    raise ValueError(f"{key}: '{mark}' is no mark")
                lines[mark] = (*lines.get(mark, ()), text)
            relation = self.relations[key] = Relation(
                key, key.partition(".")[0], object_kind, rank, lines
            )
            self.of[relation.subject] = (*self.of.get(relation.subject, ()), relation)
            self.to[relation.object] = (*self.to.get(relation.object, ()), relation)
        self._routes: dict[int, tuple[tuple[str, ...], ...]] = {}

    def ends(self, step: str) -> tuple[str, str]:
        """The kinds of things that a step leads from and to."""
        relation = self.relations[step.removeprefix(INVERSE)]
        if step.startswith(INVERSE):
            return relation.object, relation.subject
        return relation.subject, relation.object

    def _steps(self, kind: str, last: bool) -> list[str]:
        """Steps from a thing of `kind` that a noun phrase expresses or, if `last`, a question,
        perhaps for a value."""
        ask = "="
        ask_back = "-"
        if last:
            ask = "?"
            ask_back = "!"
        onward = [r for r in self.of.get(kind, ()) if ask in r.lines]
        steps: list[str] = []
        for relation in onward:
            is_value = relation.object in VALUES
            if last or not is_value:
                steps.append(relation.name)
        back = [r.name for r in self.to.get(kind, ()) if ask_back in r.lines]
        return steps + [INVERSE + name for name in back]

    def routes(self, hops: int) -> tuple[tuple[str, ...], ...]:
        """All chains of `hops` steps in which no step undoes the one before."""
        if hops not in self._routes:
            routes: list[tuple[str, ...]] = []
            for kind in sorted({*self.of, *self.to} - VALUES):
                routes += [(step,) for step in self._steps(kind, last=hops == 1)]
            for at in range(1, hops):
                last = at == hops - 1
                longer: list[tuple[str, ...]] = []
                for route in routes:
                    longer += [(*route, step) for step in self._steps_after(route[-1], last=last)]
                routes = longer
            self._routes[hops] = tuple(routes)
        return self._routes[hops]

    def _steps_after(self, step: str, *, last: bool) -> list[str]:
        """The steps that may follow a step: those that do not undo it."""
        kind = self.ends(step)[1]
        relation = step.removeprefix(INVERSE)
        following: list[str] = []
        for onward in self._steps(kind, last=last):
            undone = onward != step and onward.removeprefix(INVERSE) == relation
            if not undone:
                following.append(onward)
        return following

    def say(self, fact: Fact, dice: Dice) -> str:
        """A sentence that states the fact."""
        relation = self.relations[fact.relation]
        mark = "."
        if relation.object == "flag":
            mark = _FLAG_MARKS[fact.object]
        text = dice.pick(relation.lines[mark])
        opened = dice.chance(_OPENED) and text.startswith("{")
        text = text.format(s=fact.subject, o=fact.object)
        if not opened:
            return _capital(text)
        return dice.pick(OPENERS[self.name]) + text

    def phrase(self, path: Path, dice: Dice) -> str:
        """A noun phrase for the end of the path: "the birthplace of the author of Velindra"; the
        start if no steps."""
        phrase = path.start
        for step in path.steps:
            lines = self.relations[step.removeprefix(INVERSE)].lines
            mark = "="
            if step.startswith(INVERSE):
                mark = "-"
            phrase = dice.pick(lines[mark]).format(s=phrase, o=phrase)
        return phrase

    def _phrase_but_last(self, path: Path, dice: Dice) -> str:
        """A noun phrase for the end of the path without its last step."""
        return self.phrase(Path(path.start, path.steps[:-1]), dice)

    def ask(self, query: Query, dice: Dice) -> str:
        """A query as a question in words."""
        path = paths(query)[0]
        relation = self.relations[path.steps[-1].removeprefix(INVERSE)]
        if isinstance(query, Path):
            inner = self._phrase_but_last(path, dice)
            mark = "?"
            if path.steps[-1].startswith(INVERSE):
                mark = "!"
            text = dice.pick(relation.lines[mark])
            return _capital(text.format(s=inner, o=inner))
        if isinstance(query, Same):
            first = self._phrase_but_last(query.first, dice)
            second = self._phrase_but_last(query.second, dice)
            return _capital(dice.pick(relation.lines["&"]).format(a=first, b=second))
        mark = ">"
        if query.smaller:
            mark = "<"
        clause = dice.pick(relation.lines[mark])
        if len(query.first.steps) == 2:
            role = self.relations[query.first.steps[0]].lines["@"][0]
            clause = f"has the {role} who {clause}"
        text = dice.pick(("Which of {a} and {b} {clause}?", "Of {a} and {b}, which one {clause}?"))
        return _capital(text.format(a=query.first.start, b=query.second.start, clause=clause))


@cache
def schema(name: str) -> Schema:
    """The schema of "encyclopedia", "story" or "paper"."""
    return Schema(name)
