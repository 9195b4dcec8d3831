"""Stories in chapters, things passing from hand to hand in order, with the questions of NarrativeQA
or of QuALITY.

"Who found the lantern Velax?"     ("Toren", "it was Toren"), two answers as in NarrativeQA

Questions of four options, easy and hard, are as in QuALITY. Easy: the three wrong options are of
the right kind but do not occur in the text. Hard: the text names all of them, and where it can in
the same role. Gold.extra: gold_label (1 to 4), difficult (0 or 1), all_classes (the options).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.types import Example, Gold, Question
from pocket.world.fact_proofs import Fact
from pocket.world.facts_and_distractors import GrowingText, ProvedQuestion
from pocket.world.layout import (
    Order,
    Page,
    Paragraph,
    Sample,
    characters_for_facts,
    lay_out,
    pad,
    questions_that_fit,
    spans_of_facts,
)
from pocket.world.templates import schema

_SHARE_OF_COMPARISONS = 0.15
_FACTS_PER_CHAPTER = (3, 7)  # facts a chapter
_MAX_MOMENT_STEP = 0.2  # how far apart, at most, the stations of a thing lie; the whole story is 1
_DEFAULT_WORDING = (
    "it was {}"  # an answer in a second wording; of some kinds of things there is a better one
)
_WORDING_OF_KIND = {"town": "in {}", "spot": "in {}", "craft": "as a {}", "price": "for {}"}
OPTIONS = 4
_SHARE_HARD = 0.5
_MAX_DRAWS = 100  # a long text names every trade and place there is; then one of these must do


@dataclass(frozen=True)
class Solution:
    """What a story's question has as gold.

    Attributes:
        answers: The right answers.
        options: The options to choose from; None for a question without options.
        extra: Further keys of Gold.extra.
    """

    answers: tuple[str, ...]
    options: tuple[str, ...] | None = None
    extra: Mapping[str, object] = field(default_factory=dict)


def make(order: Order) -> Sample:
    """Make a story and questions about it. A question has two wordings of its answer as gold
    answers, and the sentences that prove it as gold spans."""

    def solve(question: ProvedQuestion, growing_text: GrowingText) -> Solution:
        """The answer as a word and in a wording of its kind: "Kelford", "in Kelford". Only for the
        object of the last fact of a path the kind is known; other answers have one wording."""
        wording = _DEFAULT_WORDING
        is_object = bool(question.supports) and question.supports[-1].object == question.answer
        if question.kind == "path" and is_object:
            kind = growing_text.schema.relations[question.relation].object
            wording = _WORDING_OF_KIND.get(kind, _DEFAULT_WORDING)
        return Solution((question.answer, wording.format(question.answer)))

    return _make_story(order, solve)


def make_choice(order: Order) -> Sample:
    """Make a story and questions with options about it; the gold answer is the text of the right
    option."""

    def solve(question: ProvedQuestion, growing_text: GrowingText) -> Solution:
        """The answer among its options, with the labels that QuALITY's rows have."""
        options, is_hard = _draw_options(question, growing_text)
        option_number = options.index(question.answer) + 1
        extra = {
            "gold_label": option_number,
            "difficult": int(is_hard),
            "all_classes": list(options),
        }
        return Solution(answers=(question.answer,), options=options, extra=extra)

    return _make_story(order, solve)


def _make_story(order: Order, solve: Callable[[ProvedQuestion, GrowingText], Solution]) -> Sample:
    """Make a story of the ordered length and questions about it.

    Args:
        order: Length, number of questions and hops, and the random numbers.
        solve: Gives the gold answers and the options of a question, from it and the text.
    """
    growing_text = GrowingText(schema("story"), order.dice, characters_for_facts(order.characters))
    # Each question adds the facts that prove its answer; the rest of the room gets other facts.
    proved_questions = [
        _ask_question(order, growing_text) for _ in range(questions_that_fit(order))
    ]
    growing_text.fill(proved_questions)
    page = _write_chapters(order, growing_text)
    examples = []
    for number, question in enumerate(proved_questions):
        solution = solve(question, growing_text)
        extra_gold = {"hops": question.hops, "type": question.kind, **solution.extra}
        supporting = spans_of_facts([page], question.supports, whole=False)
        question_id = f"{order.id}-q{number}"
        examples.append(
            Example(
                Question(question_id, question.text, (order.id,), solution.options),
                Gold(solution.answers, supporting, extra_gold),
            )
        )
    return Sample(
        pages=(page,),
        examples=tuple(examples),
        asked=tuple(proved_questions),
        base=growing_text.base,
    )


def _ask_question(order: Order, growing_text: GrowingText) -> ProvedQuestion:
    """Add facts for one more question to the text, and return the question.

    Args:
        order: Says which numbers of hops a question may have.
        growing_text: The text, which gets the facts.
    """
    hops = order.dice.pick(order.hops)
    if hops == 2 and order.dice.chance(_SHARE_OF_COMPARISONS):
        return growing_text.ask_which(hops=1)
    return growing_text.ask_path(hops)


def _write_chapters(order: Order, growing_text: GrowingText) -> Page:
    """Lay out the story: its sentences in the order of time, cut into chapters, and padded.

    The facts of a thing follow each other from a random moment on, in the order of the relations'
    table; a fact of a person stands anywhere.

    Args:
        order: The length and id of the story.
        growing_text: Its facts and sentences.
    """
    dice = order.dice
    relations = growing_text.schema.relations
    # Each as (moment in the story, fact, its sentence).
    sentences_in_time: list[tuple[float, Fact, str]] = []
    for facts in growing_text.facts_by_subject.values():
        moment = dice.random()
        for fact, sentence in sorted(facts, key=lambda line: relations[line[0].relation].rank):
            if relations[fact.relation].subject == "person":
                moment = dice.random()
            else:
                moment += _MAX_MOMENT_STEP * dice.random()
            sentences_in_time.append((moment, fact, sentence))
    sentences_in_time.sort(key=lambda line: line[0])
    lines = [(fact, sentence) for _, fact, sentence in sentences_in_time]
    chapters: list[Paragraph] = []
    n_used = 0
    while n_used < len(lines):
        n_sentences = order.dice.between(*_FACTS_PER_CHAPTER)
        lines_of_chapter = lines[n_used : n_used + n_sentences]
        chapters.append(Paragraph(f"Chapter {len(chapters) + 1}", [*lines_of_chapter]))
        n_used += n_sentences
    pad(chapters, order.characters, order.dice)
    return lay_out(order.id, chapters, title=f"The Tale of {growing_text.draw_thing('person')}")


def _draw_options(
    question: ProvedQuestion, growing_text: GrowingText
) -> tuple[tuple[str, ...], bool]:
    """The options of a question in random order, and whether it is hard.

    A hard question has only wrong options that the text names, those in the answer's role first;
    where there are too few, the question is an easy one. An easy one also has options that the text
    does not name, where such can be found in a number of draws.

    Args:
        question: The question with its proof.
        growing_text: The text.
    """
    dice = growing_text.dice
    kind = _kind_of_answer(question, growing_text)
    wrong_options: list[str] = []
    is_hard = dice.chance(_SHARE_HARD)
    if is_hard:
        wrong_options = _options_named_in_text(question, growing_text, kind)[: OPTIONS - 1]
        is_hard = len(wrong_options) == OPTIONS - 1
    n_draws = 0
    while len(wrong_options) < OPTIONS - 1:
        thing = growing_text.draw_thing(kind)
        n_draws += 1
        if thing in (question.answer, *wrong_options):
            continue
        if thing not in growing_text.named_things or n_draws > _MAX_DRAWS:
            wrong_options.append(thing)
    return tuple(dice.shuffled([question.answer, *wrong_options])), is_hard


def _kind_of_answer(question: ProvedQuestion, growing_text: GrowingText) -> str:
    """The kind of thing that the answer is, such as "town".

    Args:
        question: The question with its proof.
        growing_text: The text, whose schema knows the kinds.
    """
    if question.kind == "comparison":  # its answer is one of the two things compared
        return growing_text.schema.relations[question.supports[0].relation].subject
    last_fact = question.supports[-1]
    relation = growing_text.schema.relations[last_fact.relation]
    if last_fact.object == question.answer:
        return relation.object
    return relation.subject


def _options_named_in_text(
    question: ProvedQuestion, growing_text: GrowingText, kind: str
) -> list[str]:
    """Things that the text names and that are not the answer, in random order: first those in the
    answer's role, the objects of the same relation.

    Args:
        question: The question with its proof.
        growing_text: The text.
        kind: The kind of thing that the answer is.
    """
    things_in_role: list[str] = []
    if question.kind == "path":
        facts = growing_text.base.facts
        things_in_role = [fact.object for fact in facts if fact.relation == question.relation]
    if question.answer not in things_in_role:  # it is the subject of that relation
        things_in_role = []
    names_of_kind = growing_text.reusable_names_by_kind.get(kind, ())
    named_things = [name for name in names_of_kind if name in growing_text.named_things]
    options = dict.fromkeys(  # each once, in order
        [*growing_text.dice.shuffled(things_in_role), *growing_text.dice.shuffled(named_things)]
    )
    options.pop(question.answer, None)
    return list(options)
