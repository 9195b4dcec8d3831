"""All questions that a set of facts answers, and some that it does not: what makes a text worth
training on.

    Asker("encyclopedia", facts, dice).one()   a ProvedQuestion, or None where the facts allow none

Every answer is proved (pocket.world.fact_proofs.prove), never read off the sentence.
"""

from collections.abc import Iterable

from harness.stats.rng import Dice
from pocket.world.fact_proofs import (
    INVERSE,
    Compare,
    Fact,
    FactBase,
    Path,
    Query,
    Same,
    numeric_value,
    prove,
    supporting_facts,
)
from pocket.world.facts_and_distractors import UNANSWERABLE, ProvedQuestion
from pocket.world.templates import LARGER, SAME_OBJECT, SMALLER, schema

_MAX_DRAWS = 12


def _one_step_path(fact: Fact) -> Path:
    """The path of one step from the subject of a fact to its object."""
    return Path(fact.subject, (fact.relation,))


class Asker:
    """Draws questions about facts; each method draws one of another kind, or returns None."""

    def __init__(self, name: str, facts: Iterable[Fact], dice: Dice) -> None:
        """Index the facts.

        Args:
            name: The name of their schema: "encyclopedia", "story" or "paper".
            facts: The facts; they contradict each other nowhere.
            dice: Draws all that is random.
        """
        self.schema = schema(name)
        self.dice = dice
        self.facts = list(facts)
        self.base = FactBase.of(self.facts)
        self._facts_of_thing: dict[str, list[Fact]] = {}  # thing -> facts that it is an end of
        for fact in self.facts:
            self._facts_of_thing.setdefault(fact.subject, []).append(fact)
            self._facts_of_thing.setdefault(fact.object, []).append(fact)

    def _question_if_proved_once(self, query: Query, kind: str) -> ProvedQuestion | None:
        """The query as a question in words with its answer and proof; None unless the facts prove
        exactly one answer.

        Args:
            query: What is asked.
            kind: The kind of question: "path", "comparison" or "same".
        """
        answers = prove(query, self.base)
        if len(answers) != 1:
            return None
        (answer,) = answers
        text = self.schema.question_for(query, self.dice)
        supports = supporting_facts(query, self.base)
        return ProvedQuestion(text, query, answer=answer, supports=supports, kind=kind)

    def _step_by_fact(self, fact: Fact, start: str) -> str:
        """The step by which a fact leads from one of its ends to the other: "person.born" from its
        subject, "^person.born" from its object."""
        if fact.subject == start:
            return fact.relation
        return INVERSE + fact.relation

    def one(self) -> ProvedQuestion | None:
        """Draw a question of one hop, for the object of a fact or for its subject ("^relation");
        None where none was found in a number of draws. Where both have a wording, it is mostly the
        object."""
        for _ in range(_MAX_DRAWS):
            fact = self.dice.pick(self.facts)
            relation = self.schema.relations[fact.relation]
            asks_for_subject = relation.has_question_for_subject
            if asks_for_subject and relation.has_question_for_object:
                asks_for_subject = self.dice.chance(0.3)
            if asks_for_subject:
                path = Path(fact.object, (INVERSE + fact.relation,))
            elif relation.has_question_for_object:
                path = Path(fact.subject, (fact.relation,))
            else:
                continue
            question = self._question_if_proved_once(path, "path")
            if question is not None:
                return question
        return None

    def two(self) -> ProvedQuestion | None:
        """Draw a question of two hops, as "Where was the author of X born?"; None where none was
        found in _MAX_DRAWS draws.

        It goes from one end of a fact (start) to its other end (middle), and from there to the
        other end of a second fact, by two steps that the schema has a question for.
        """
        routes = self.schema.routes(2)
        for _ in range(_MAX_DRAWS):
            first_fact = self.dice.pick(self.facts)
            start, middle = self.dice.shuffled((first_fact.subject, first_fact.object))
            second_fact = self.dice.pick(self._facts_of_thing[middle])
            if second_fact == first_fact:
                continue
            steps = (self._step_by_fact(first_fact, start), self._step_by_fact(second_fact, middle))
            if steps not in routes:  # the schema has no question for it
                continue
            question = self._question_if_proved_once(Path(start, steps), "path")
            # More than two supports: one of the steps leads to several things, though all lead to
            # one answer.
            if question is not None and question.answer != start and len(question.supports) == 2:
                return question
        return None

    def _comparable_facts(self, *marks: str) -> tuple[Fact, Fact] | None:
        """Draw two facts of one relation with different subjects; None where none were found.

        Args:
            *marks: The relation has a line with one of these marks (see templates): SMALLER and
                LARGER to compare numbers, SAME_OBJECT to compare things.
        """
        candidates: list[Fact] = []
        for fact in self.facts:
            wordings = self.schema.relations[fact.relation].lines
            if not wordings.keys().isdisjoint(marks):
                candidates.append(fact)
        if len(candidates) < 2:
            return None
        for _ in range(_MAX_DRAWS):
            first = self.dice.pick(candidates)
            second = self.dice.pick([f for f in candidates if f.relation == first.relation])
            if first.subject != second.subject:
                return first, second
        return None

    def compare(self) -> ProvedQuestion | None:
        """Draw a question which of two things has the smaller or larger number; None where no two
        can be compared."""
        two_facts = self._comparable_facts(SMALLER, LARGER)
        if two_facts is None:
            return None
        first, second = two_facts
        if numeric_value(first.object) == numeric_value(second.object):
            return None
        wordings = self.schema.relations[first.relation].lines
        marks_with_wording = [mark for mark in (SMALLER, LARGER) if mark in wordings]
        asks_for_smaller = self.dice.pick(marks_with_wording) == SMALLER
        comparison = Compare(
            _one_step_path(first), _one_step_path(second), smaller=asks_for_smaller
        )
        return self._question_if_proved_once(comparison, "comparison")

    def same(self) -> ProvedQuestion | None:
        """Draw a question whether two things have the same object; None where no two can be
        compared. The answer is drawn first, yes as often as no; where no draw of facts gives it,
        the last question stands, whatever its answer."""
        wanted_answer = "no"
        if self.dice.chance(0.5):
            wanted_answer = "yes"
        question = None
        for _ in range(_MAX_DRAWS):
            two_facts = self._comparable_facts(SAME_OBJECT)
            if two_facts is None:
                return None
            first, second = two_facts
            question = self._question_if_proved_once(
                Same(_one_step_path(first), _one_step_path(second)), "same"
            )
            if question is not None and question.answer == wanted_answer:
                return question
        return question

    def nothing(self) -> ProvedQuestion | None:
        """Draw a question about a thing in the facts, which they could answer but do not; None
        where none was found in _MAX_DRAWS draws."""
        for _ in range(_MAX_DRAWS):
            subject = self.dice.pick(self.facts).subject
            first_fact = self._facts_of_thing[subject][0]
            kind = self.schema.relations[first_fact.relation].subject
            askable_relations = [
                r for r in self.schema.relations_from.get(kind, ()) if r.has_question_for_object
            ]
            # Where the thing is the object of that fact, `kind` is not its kind.
            if not askable_relations or first_fact.subject != subject:
                continue
            query = Path(subject, (self.dice.pick(askable_relations).name,))
            if not prove(query, self.base):
                text = self.schema.question_for(query, self.dice)
                return ProvedQuestion(
                    text, query, answer=UNANSWERABLE, supports=(), kind="unanswerable"
                )
        return None
