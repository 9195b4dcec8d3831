"""A document's facts, grown around its questions: first what proves the answers, then what only
looks like it.

    growth = GrowingText(schema("encyclopedia"), dice, max_characters=4000)
    question = growth.ask_path(hops=2)  the facts that prove the answer, and one more that holds the answer and does not
    growth.fill([question])             look-alikes and others, until max_characters are used

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
    paths_of_query,
    prove,
    supporting_facts,
)
from pocket.world.names import VALUES, Namer, make_value
from pocket.world.templates import (
    LARGER,
    SMALLER,
    Relation,
    Schema,
)

UNANSWERABLE = "unanswerable"
_SHARE_LOOKING_ALIKE = 0.6  # share of subjects that are of a kind the questions are about
_SHARE_REUSED_OBJECTS = 0.7  # share of objects that the text names already
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
class ProvedQuestion:
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
        """How many facts lie between the names in the question and its answer; for a comparison,
        how many facts both sides need together."""
        if isinstance(self.query, Path):
            return len(self.query.steps)
        return len(self.supports)

    @property
    def relation(self) -> str:
        """The relation whose fact holds the answer: "person.born"."""
        return paths_of_query(self.query)[0].steps[-1].removeprefix(INVERSE)


class GrowingText:
    """Facts and their sentences, to which questions and distractors are added until a number of
    characters is used.

    Attributes:
        base: All facts so far.
        facts_by_subject: Subject -> its facts, each with its sentence, in the order they were added.
        reusable_names_by_kind: Kind of thing -> the names of that kind which facts may use again.
        named_things: All things that the sentences name.
        used_characters: The characters of all sentences, and of titles.
        is_full: Whether a fact was refused because it would have been too long.
    """

    def __init__(
        self, schema: Schema, dice: Dice, max_characters: int, title_characters: int = 0
    ) -> None:
        """Begin without a fact or a sentence.

        Args:
            schema: The relations and their wording.
            dice: Draws all that is random.
            max_characters: How many characters all sentences may have together. Below 4000 a
                subject gets fewer facts.
            title_characters: How many characters the title of a subject takes beside its name; 0
                for no titles.
        """
        self.schema = schema
        self.dice = dice
        self.max_characters = max_characters
        self.title_characters = title_characters
        self.base = FactBase()
        self.facts_by_subject: dict[str, list[tuple[Fact, str]]] = {}
        self.reusable_names_by_kind: dict[str, list[str]] = {}
        self.named_things: set[str] = set()
        self.used_characters = 0
        self.is_full = False
        self._namer = Namer(dice)
        # Kind -> things that are objects of facts so far, and may become subjects of others.
        self._waiting: dict[str, list[str]] = {}
        # How many facts a subject gets beyond its first: (least, most).
        self._n_further_facts = (2, 6)
        if max_characters < 4000:
            self._n_further_facts = (0, 2)

    def draw_thing(self, kind: str) -> str:
        """Draw a value of a kind ("212 kilometres"), or a name that was not drawn before
        ("Velford"). It is not yet among the things that facts may use again: `add_thing` adds
        it."""
        if kind in VALUES:
            return make_value(kind, self.dice)
        name = self._namer.fresh(kind)
        if kind == "keepsake":
            return f"the {self.dice.pick(NOUNS)} {name}"
        return name

    def add_thing(self, kind: str, *, waiting: bool = False) -> str:
        """Draw a new thing of a kind, a name or a value such as a year; a name is remembered as one
        that facts may use again.

        Args:
            kind: The kind of thing.
            waiting: Whether the thing may also get facts of its own later.
        """
        name = self.draw_thing(kind)
        is_name = kind not in VALUES
        if is_name:
            self.reusable_names_by_kind.setdefault(kind, []).append(name)
            if waiting and kind in self.schema.relations_from:
                self._waiting.setdefault(kind, []).append(name)
        return name

    def add_fact(self, fact: Fact, *, even_if_full: bool = True) -> bool:
        """Add a fact with a sentence that states it; returns whether it was added. Sets `is_full`
        where it was not added for want of characters.

        Args:
            fact: The fact. It is not added where it would contradict another, or change the answer
                to a question.
            even_if_full: Whether it is added even where no characters are left.
        """
        if not self.base.allows(fact):
            return False
        sentence = self.schema.sentence_for(fact, self.dice)
        n_characters = len(sentence) + 1
        if self.title_characters and fact.subject not in self.facts_by_subject:
            n_characters += len(fact.subject) + self.title_characters  # its title
        if not even_if_full and self.used_characters + n_characters > self.max_characters:
            self.is_full = True
            return False
        self.base.add(fact)
        self.named_things.update((fact.subject, fact.object))
        self.used_characters += n_characters
        self.facts_by_subject.setdefault(fact.subject, []).append((fact, sentence))
        return True

    def ask_path(self, hops: int) -> ProvedQuestion:
        """Add facts for a question of some steps, as "Where was the author of X born?" of two, and
        return the question.

        Args:
            hops: How many facts lie between the name in the question and its answer.
        """
        steps = self.dice.pick(self.schema.routes(hops))
        start = self.add_thing(self.schema.ends(steps[0])[0])
        self._add_path(start, steps)
        return self._proved_question(Path(start, steps), "path")

    def _add_path(self, start: str, steps: Sequence[str], end: str | None = None) -> str:
        """State the facts of a path through new things; return the last thing.

        A step back from an object to its subject closes (relation, object), so that it leads to
        this subject alone.

        Args:
            start: Where the path begins.
            steps: Its relations; "^relation" for a step from object to subject.
            end: Where it ends; None for a new thing.
        """
        thing = start
        for number, step in enumerate(steps, start=1):
            next_thing = end
            if next_thing is None or number < len(steps):
                _, kind_of_next_thing = self.schema.ends(step)
                next_thing = self.add_thing(kind_of_next_thing)
            relation_name = step.removeprefix(INVERSE)
            if step.startswith(INVERSE):
                self.add_fact(Fact(next_thing, relation_name, thing))
                self.base.closed_objects.add((relation_name, thing))
            else:
                self.add_fact(Fact(thing, relation_name, next_thing))
            thing = next_thing
        return thing

    def ask_which(self, hops: int) -> ProvedQuestion:
        """Add facts on two new things, and return the question which of them has the smaller (or
        larger) number.

        Args:
            hops: 1 compares their own numbers; 2 compares the years of birth of their persons
                (which of two books has the older author).
        """
        steps = self._steps_to_number(hops)
        last_relation = self.schema.relations[steps[-1]]
        kind_of_number = last_relation.object
        kind_of_start, _ = self.schema.ends(steps[0])
        first = Path(self.add_thing(kind_of_start), steps)
        second = Path(self.add_thing(kind_of_start), steps)
        first_number = self.draw_thing(kind_of_number)
        second_number = self.draw_thing(kind_of_number)
        while first_number == second_number:
            second_number = self.draw_thing(kind_of_number)
        self._add_path(first.start, steps, end=first_number)
        self._add_path(second.start, steps, end=second_number)
        asks_for_smaller = SMALLER in last_relation.lines
        if asks_for_smaller and LARGER in last_relation.lines:  # both can be asked
            asks_for_smaller = self.dice.chance(0.5)
        query = Compare(first, second, smaller=asks_for_smaller)
        return self._proved_question(query, "comparison")

    def _steps_to_number(self, hops: int) -> tuple[str, ...]:
        """The steps from a thing to a number that can be compared: a random relation to a number,
        or for two hops a random relation to a person, and then the person's birth."""
        first_steps: list[str] = []
        for relation in self.schema.relations.values():
            leads_on = relation.compares_numbers
            if hops == 2:
                leads_on = relation.names_its_object and relation.object == "person"
            if leads_on:
                first_steps.append(relation.name)
        if hops == 1:
            return (self.dice.pick(first_steps),)
        return (self.dice.pick(first_steps), "person.birth")

    def ask_same(self) -> ProvedQuestion:
        """Add facts on two new things, and return the question whether they have the same object,
        as often yes as no."""
        relation = self.dice.pick(
            [r for r in self.schema.relations.values() if r.has_question_for_same_object]
        )
        first = Path(self.add_thing(relation.subject), (relation.name,))
        second = Path(self.add_thing(relation.subject), (relation.name,))
        first_object = self.add_thing(relation.object)
        second_object = first_object
        if self.dice.chance(0.5):
            while second_object == first_object:
                second_object = self.add_thing(relation.object)
        self.add_fact(Fact(first.start, relation.name, first_object))
        self.add_fact(Fact(second.start, relation.name, second_object))
        return self._proved_question(Same(first, second), "same")

    def ask_nothing(self) -> ProvedQuestion:
        """Add facts for a question that the text does not answer, and return it: the text says
        something else of the thing, and says what is asked of another thing. From now on no fact
        may give the thing the relation that is asked for."""
        relation = self.dice.pick(
            [r for r in self.schema.relations.values() if r.has_question_for_object]
        )
        start = self.add_thing(relation.subject)
        self.base.silent_subjects.add((start, relation.name))
        relations_of_start = self.schema.relations_from[relation.subject]
        stated_relation = self.dice.pick([r for r in relations_of_start if r is not relation])
        self.add_fact(Fact(start, stated_relation.name, self.add_thing(stated_relation.object)))
        other_thing = self.add_thing(relation.subject)
        self.add_fact(Fact(other_thing, relation.name, self.add_thing(relation.object)))
        query = Path(start, (relation.name,))
        text = self.schema.question_for(query, self.dice)
        return ProvedQuestion(text, query, answer=UNANSWERABLE, supports=(), kind="unanswerable")

    def _proved_question(self, query: Query, kind: str) -> ProvedQuestion:
        """The query as a question in words, with its answer and proof. Also states one more fact
        with the answer in it, which proves nothing, unless the answer is yes or no.

        Args:
            query: What is asked; the facts so far prove exactly one answer.
            kind: The kind of question: "path", "comparison" or "same".
        """
        (answer,) = prove(query, self.base)
        text = self.schema.question_for(query, self.dice)
        supports = supporting_facts(query, self.base)
        question = ProvedQuestion(text, query, answer=answer, supports=supports, kind=kind)
        last_relation = self.schema.relations[question.relation]
        is_yes_or_no = isinstance(query, Same) or last_relation.object == "flag"
        if not is_yes_or_no:  # no fact could have yes or no in it
            self._add_distractor(question, last_relation)
        return question

    def _add_distractor(self, question: ProvedQuestion, last_relation: Relation) -> None:
        """State one more fact with the answer of a question in it, mostly as its object, that is no
        proof of the answer.

        Args:
            question: The question.
            last_relation: The relation that the answer is read from.
        """
        answer = question.answer
        path = paths_of_query(question.query)[0]
        is_inverse = path.steps[-1].startswith(INVERSE)
        _, kind_of_answer = self.schema.ends(path.steps[-1])
        if question.kind == "comparison":  # its answer is a thing that a path starts from
            kind_of_answer, _ = self.schema.ends(path.steps[0])
        relations_to_kind = self.schema.relations_to.get(kind_of_answer, ())
        relations_to_answer = [
            r for r in relations_to_kind if (r.name, answer) not in self.base.closed_objects
        ]
        if not is_inverse and question.kind == "path" and self.dice.chance(0.5):
            # The hardest one: the same relation, of another subject.
            relations_to_answer = [last_relation]
        can_be_subject = kind_of_answer in self.schema.relations_from
        if relations_to_answer and (not can_be_subject or self.dice.chance(0.7)):
            relation = self.dice.pick(relations_to_answer)
            self.add_fact(Fact(self.add_thing(relation.subject), relation.name, answer))
            return
        # Else the answer as the subject, of a relation that may still be stated of it.
        relations_from_kind = self.schema.relations_from[kind_of_answer]
        relations_from_answer = [
            r for r in relations_from_kind if self.base.allows(Fact(answer, r.name, ""))
        ]
        relation = self.dice.pick(relations_from_answer)
        self.add_fact(Fact(answer, relation.name, self.add_thing(relation.object, waiting=True)))

    def fill(self, questions: Sequence[ProvedQuestion], min_subjects: int = 0) -> None:
        """Add subjects with facts, mostly of the relations in `questions`, until no characters are
        left.

        Args:
            questions: Questions whose look-alikes are added.
            min_subjects: How many subjects the text has at least, also beyond its characters.
        """
        relations_in_questions: list[Relation] = []
        for question in questions:
            for step in paths_of_query(question.query)[0].steps:
                relation = self.schema.relations[step.removeprefix(INVERSE)]
                relations_in_questions.append(relation)
        all_relations = list(self.schema.relations.values())
        while not self.is_full or len(self.facts_by_subject) < min_subjects:
            even_if_full = len(self.facts_by_subject) < min_subjects
            relations = all_relations
            if relations_in_questions and self.dice.chance(_SHARE_LOOKING_ALIKE):
                relations = relations_in_questions
            self._add_subject(self.dice.pick(relations), even_if_full=even_if_full)

    def _add_subject(self, first_relation: Relation, *, even_if_full: bool) -> None:
        """Add facts on one subject, which is new or was the object of a fact before: the relation
        `first_relation`, and usually some more. Their objects are new, or things that the text
        names already.

        Args:
            first_relation: A relation that the subject gets.
            even_if_full: Whether to add `first_relation` alone, but even where no characters are
                left.
        """
        kind = first_relation.subject
        waiting_things = self._waiting.get(kind)
        if waiting_things and self.dice.chance(0.5):
            # Take out the thing at a random place; the last one takes that place.
            index = self.dice.below(len(waiting_things))
            subject = waiting_things[index]
            waiting_things[index] = waiting_things[-1]
            waiting_things.pop()
        else:
            subject = self.add_thing(kind)
        other_relations = [r for r in self.schema.relations_from[kind] if r is not first_relation]
        n_further = 0
        if not even_if_full:
            n_further = self.dice.between(*self._n_further_facts)
        for relation in [first_relation, *self.dice.shuffled(other_relations)[:n_further]]:
            fact_object = ""
            known_things = self.reusable_names_by_kind.get(relation.object)
            if known_things and self.dice.chance(_SHARE_REUSED_OBJECTS):
                fact_object = self.dice.pick(known_things)
            is_closed = (relation.name, fact_object) in self.base.closed_objects
            if not fact_object or fact_object == subject or is_closed:
                fact_object = self.add_thing(relation.object, waiting=True)
            self.add_fact(Fact(subject, relation.name, fact_object), even_if_full=even_if_full)
