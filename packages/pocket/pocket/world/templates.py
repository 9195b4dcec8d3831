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
from pocket.world.fact_proofs import INVERSE, Fact, Path, Query, Same, paths_of_query
from pocket.world.names import VALUES

SMALLER, LARGER = "<", ">"
"""Marks of the lines that compare two numbers: which is smaller, which is larger."""
SAME_OBJECT = "&"
"""The mark of the lines that ask whether two things have the same object."""
ASKS_OBJECT, ASKS_SUBJECT = "?", "!"
"""Marks of the lines that ask for the object of a relation, or for its subject."""
OBJECT_PHRASE, SUBJECT_PHRASE = "=", "-"
"""Marks of the lines with a noun phrase for the object of a relation, or for its subject."""
OBJECT_ROLE = "@"
"""The mark of the line that says what the object is called: "author"."""
SECTION = "#"
"""The mark of the line that names the section of a paper."""
_STATEMENT = "."
_MARKS = (
    ".+",
    ".-",
    _STATEMENT,
    ASKS_OBJECT,
    OBJECT_PHRASE,
    OBJECT_ROLE,
    ASKS_SUBJECT,
    SUBJECT_PHRASE,
    SAME_OBJECT,
    SMALLER,
    LARGER,
    SECTION,
)
_TABLE_FOLDER = FilePath(__file__).with_name("words")
"""The tables; things in stories pass from hand to hand in their order."""
_TABLES_OF_SCHEMA = {
    "encyclopedia": ("encyclopedia", "places"),
    "story": ("story",),
    "paper": ("paper",),
}
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
_SHARE_WITH_OPENER = 0.15
_MARK_OF_FLAG = {"yes": ".+", "no": ".-"}


@dataclass(frozen=True)
class Relation:
    """One block of a table: a relation between two kinds of things, and how texts put it.

    Args:
        name: "book.author".
        subject: The kind of thing that has it: "book".
        object: The kind of thing that it leads to: "person".
        rank: The number of its block in the table.
        lines: Mark -> the lines with that mark.
    """

    name: str
    subject: str
    object: str
    rank: int
    lines: dict[str, tuple[str, ...]] = field(hash=False)

    @property
    def compares_numbers(self) -> bool:
        """Whether a question can ask which of two things has the smaller or the larger object."""
        return SMALLER in self.lines or LARGER in self.lines

    @property
    def has_question_for_object(self) -> bool:
        """Whether it has the wording of a question for its object: "Who wrote {s}?"."""
        return ASKS_OBJECT in self.lines

    @property
    def has_question_for_subject(self) -> bool:
        """Whether it has the wording of a question for its subject: "What did {o} write?"."""
        return ASKS_SUBJECT in self.lines

    @property
    def has_question_for_same_object(self) -> bool:
        """Whether it has the wording of a question if two things have the same object: "Are {a} and
        {b} in the same language?"."""
        return SAME_OBJECT in self.lines

    @property
    def names_its_object(self) -> bool:
        """Whether it has words for the part that its object has in it: "author"."""
        return OBJECT_ROLE in self.lines


def _parse_relation(block: str, rank: int) -> Relation:
    """Parse one block of a table.

        "book.author person\\n. {s} is by {o}.\\n= the author of {s}"
            -> Relation("book.author", "book", "person", rank, {".": (...), "=": (...)})

    Args:
        block: The lines of the block.
        rank: Its place in the table.

    Raises:
        ValueError: A line has no mark.
    """
    head, *rest = block.splitlines()
    name, object_kind = head.split()
    lines: dict[str, tuple[str, ...]] = {}
    for line in rest:
        mark, _, text = line.partition(" ")
        if mark not in _MARKS:
            raise ValueError(f"{name}: '{mark}' is no mark")
        lines[mark] = (*lines.get(mark, ()), text)
    subject_kind = name.partition(".")[0]
    return Relation(name, subject_kind, object_kind, rank, lines)


def _with_capital(text: str) -> str:
    """The text with a capital letter at its beginning."""
    return text[0].upper() + text[1:]


class Schema:
    """The relations of one kind of text, and the sentences and questions made from them.

    Attributes:
        relations: Name -> relation.
        relations_from: Kind of thing -> the relations that lead from it.
        relations_to: Kind of thing -> the relations that lead to it.
    """

    def __init__(self, name: str) -> None:
        """Read the tables of one kind of text: its relations by name, by the kind of their subject
        and by the kind of their object. Raises ValueError for a line without a mark.

        Args:
            name: "encyclopedia", "story" or "paper".
        """
        self.name = name
        self.relations: dict[str, Relation] = {}
        self.relations_from: dict[str, tuple[Relation, ...]] = {}
        self.relations_to: dict[str, tuple[Relation, ...]] = {}
        tables = [
            (_TABLE_FOLDER / f"{table}.txt").read_text("utf-8") for table in _TABLES_OF_SCHEMA[name]
        ]
        table = "\n".join(tables)
        for rank, block in enumerate(table.strip().split("\n\n")):
            relation = _parse_relation(block, rank)
            self.relations[relation.name] = relation
            from_subject = self.relations_from.get(relation.subject, ())
            self.relations_from[relation.subject] = (*from_subject, relation)
            to_object = self.relations_to.get(relation.object, ())
            self.relations_to[relation.object] = (*to_object, relation)
        self._routes: dict[int, tuple[tuple[str, ...], ...]] = {}  # number of hops -> routes

    def ends(self, step: str) -> tuple[str, str]:
        """The kinds of things that a step leads (from, to).

        "book.author" -> ("book", "person")        "^book.author" -> ("person", "book")
        """
        relation = self.relations[step.removeprefix(INVERSE)]
        if step.startswith(INVERSE):
            return relation.object, relation.subject
        return relation.subject, relation.object

    def _steps_from_kind(self, kind: str, *, last: bool) -> list[str]:
        """The steps that lead on from a thing of a kind and that have the wording they need: a noun
        phrase, or as the last step a question: ["book.author", "^person.owns"], where "^" marks a
        step from object to subject.

        Args:
            kind: The kind of thing.
            last: Whether the step is the last of a question, which may also lead to a value.
        """
        mark = OBJECT_PHRASE
        inverse_mark = SUBJECT_PHRASE
        if last:
            mark = ASKS_OBJECT
            inverse_mark = ASKS_SUBJECT
        steps: list[str] = []
        for relation in self.relations_from.get(kind, ()):
            leads_to_value = relation.object in VALUES  # from which nothing leads on
            if mark in relation.lines and (last or not leads_to_value):
                steps.append(relation.name)
        leading_to = self.relations_to.get(kind, ())
        steps_back = [INVERSE + r.name for r in leading_to if inverse_mark in r.lines]
        return steps + steps_back

    def routes(self, hops: int) -> tuple[tuple[str, ...], ...]:
        """All chains of `hops` steps that a question can take, in which no step undoes the one
        before: (("book.author", "person.born"), ...) for two hops. They are made once."""
        if hops not in self._routes:
            routes: list[tuple[str, ...]] = []
            kinds_to_start_from = {*self.relations_from, *self.relations_to} - VALUES
            for kind in sorted(kinds_to_start_from):
                routes += [(step,) for step in self._steps_from_kind(kind, last=hops == 1)]
            for n_steps in range(1, hops):
                last = n_steps == hops - 1
                longer_routes: list[tuple[str, ...]] = []
                for route in routes:
                    longer_routes += [
                        (*route, step) for step in self._steps_after(route[-1], last=last)
                    ]
                routes = longer_routes
            self._routes[hops] = tuple(routes)
        return self._routes[hops]

    def _steps_after(self, step: str, *, last: bool) -> list[str]:
        """The steps that may follow a step: all from the thing that it leads to, but not the way
        back.

        Args:
            step: The step before.
            last: Whether they are the last of a question.
        """
        kind = self.ends(step)[1]
        relation = step.removeprefix(INVERSE)
        next_steps: list[str] = []
        for next_step in self._steps_from_kind(kind, last=last):
            goes_back = next_step != step and next_step.removeprefix(INVERSE) == relation
            if not goes_back:
                next_steps.append(next_step)
        return next_steps

    def sentence_for(self, fact: Fact, dice: Dice) -> str:
        """A sentence that states the fact, in one of the relation's wordings, sometimes after an
        opening phrase such as "In truth, "."""
        relation = self.relations[fact.relation]
        mark = _STATEMENT
        if relation.object == "flag":  # yes and no have wordings of their own
            mark = _MARK_OF_FLAG[fact.object]
        wording = dice.pick(relation.lines[mark])  # "{s} was born in {o}."
        begins_with_name = wording.startswith("{")
        gets_opener = dice.chance(_SHARE_WITH_OPENER) and begins_with_name
        sentence = wording.format(s=fact.subject, o=fact.object)
        if not gets_opener:
            return _with_capital(sentence)
        return dice.pick(OPENERS[self.name]) + sentence

    def noun_phrase(self, path: Path, dice: Dice) -> str:
        """A noun phrase for the thing at the end of a path: "the birthplace of the author of
        Velindra"; its start for a path without steps."""
        phrase = path.start
        for step in path.steps:
            wordings = self.relations[step.removeprefix(INVERSE)].lines
            mark = OBJECT_PHRASE
            if step.startswith(INVERSE):
                mark = SUBJECT_PHRASE
            phrase = dice.pick(wordings[mark]).format(s=phrase, o=phrase)
        return phrase

    def _phrase_before_last_step(self, path: Path, dice: Dice) -> str:
        """A noun phrase for the thing that the last step of a path is taken from."""
        return self.noun_phrase(Path(path.start, path.steps[:-1]), dice)

    def question_for(self, query: Query, dice: Dice) -> str:
        """The query as a question in words, in one of the wordings of its last relation: for what a
        path leads to, whether two paths lead to the same, or which of two leads to the smaller or
        larger number.

        Path("Velindra", ("book.author", "person.born"))
            -> "Where was the person who wrote Velindra born?"
        """
        first_path = paths_of_query(query)[0]  # of a comparison; a second one has the same steps
        last_step = first_path.steps[-1]
        last_relation = self.relations[last_step.removeprefix(INVERSE)]
        if isinstance(query, Path):
            phrase = self._phrase_before_last_step(query, dice)
            mark = ASKS_OBJECT
            if last_step.startswith(INVERSE):
                mark = ASKS_SUBJECT
            wording = dice.pick(last_relation.lines[mark])  # has {s} or {o}
            return _with_capital(wording.format(s=phrase, o=phrase))
        if isinstance(query, Same):
            first = self._phrase_before_last_step(query.first, dice)
            second = self._phrase_before_last_step(query.second, dice)
            wording = dice.pick(last_relation.lines[SAME_OBJECT])
            return _with_capital(wording.format(a=first, b=second))
        mark = LARGER
        if query.smaller:
            mark = SMALLER
        clause = dice.pick(last_relation.lines[mark])  # "was born first"
        if len(query.first.steps) == 2:  # "has the author who was born first"
            role = self.relations[query.first.steps[0]].lines[OBJECT_ROLE][0]
            clause = f"has the {role} who {clause}"
        text = dice.pick(("Which of {a} and {b} {clause}?", "Of {a} and {b}, which one {clause}?"))
        return _with_capital(text.format(a=query.first.start, b=query.second.start, clause=clause))


@cache
def schema(name: str) -> Schema:
    """The schema of the kind of text "encyclopedia", "story" or "paper"; its tables are read
    once."""
    return Schema(name)
