"""Stories with questions of four options, easy and hard, as in QuALITY.

Easy: the three wrong options are of the right kind but do not occur in the text. Hard: the text names all of them, and
where it can in the same role. Gold.extra: gold_label (1 to 4), difficult (0 or 1), all_classes (the options).
"""

from __future__ import annotations

from harness.types import Example, Gold, Question
from pocket.world.fact_graph import Asked, Growth
from pocket.world.layout import Made, Order, spans
from pocket.world.render_story import told
from pocket.world.templates import schema

OPTIONS = 4
_HARD = 0.5
_TRIES = 100  # a long text names every trade and place there is; then one of these must do


def make(order: Order) -> Made:
    """A story and questions with options about it; the gold answer is the text of the right option."""
    growth, questions, page = told(order)
    examples = []
    for number, question in enumerate(questions):
        options, difficult = _options(question, growth)
        extra = {
            "hops": question.hops,
            "type": question.kind,
            "gold_label": options.index(question.answer) + 1,
            "difficult": int(difficult),
            "all_classes": list(options),
        }
        gold = Gold((question.answer,), spans([page], question.supports, whole=False), extra)
        examples.append(Example(Question(f"{order.id}-q{number}", question.text, (order.id,), options), gold))
    return Made((page,), tuple(examples), tuple(questions), growth.base)


def _kind(question: Asked) -> str:
    """The kind of thing that the answer is."""
    first = question.supports[0]
    if question.kind == "comparison":
        return schema("story").relations[first.relation].subject
    relation = schema("story").relations[question.supports[-1].relation]
    return relation.object if question.supports[-1].object == question.answer else relation.subject


def _options(question: Asked, growth: Growth) -> tuple[tuple[str, ...], bool]:
    """The answer among three others in random order, and whether the question is a hard one."""
    dice, kind = growth.dice, _kind(question)
    wrong: dict[str, None] = {}
    difficult = dice.chance(_HARD)
    if difficult:
        role = [f.object for f in growth.base.facts if f.relation == question.relation and question.kind == "path"]
        named = [name for name in growth.known.get(kind, ()) if name in growth.named]
        for group in (role if question.answer in role else [], named):
            wrong.update(dict.fromkeys(name for name in dice.shuffled(group) if name != question.answer))
        wrong = dict.fromkeys([*wrong][: OPTIONS - 1])
        difficult = len(wrong) == OPTIONS - 1
    tries = 0
    while len(wrong) < OPTIONS - 1:
        name, tries = growth.thing(kind), tries + 1
        if name != question.answer and (name not in growth.named or tries > _TRIES):
            wrong[name] = None
    return tuple(dice.shuffled([question.answer, *wrong])), difficult
