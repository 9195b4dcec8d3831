"""Reads facts back out of a text by the templates alone: a second opinion on what a document
states."""

import re
from functools import cache

from pocket.world.fact_proofs import Fact, FactBase, prove
from pocket.world.names import ENDINGS, VALUES, make_value
from pocket.world.templates import OPENERS, schema

from harness.stats.rng import Dice


@cache
def shape(kind):
    """A pattern for what can stand for a thing of the kind: a name with its ending, a value from
    its list, a number."""
    if kind in VALUES:
        dice = Dice("shapes", kind)
        values = sorted({make_value(kind, dice) for _ in range(2000)})
        if values[0][0].isdigit():
            return r"[\d.,]+" + re.escape(values[0].lstrip("0123456789.,"))
        return "|".join(map(re.escape, values)).replace("the\\ ", "[Tt]he ")
    name = f"[A-Z][a-z]+?(?:{'|'.join(ENDINGS[kind])})"
    return f"[Tt]he [a-z]+ {name}" if kind == "keepsake" else name


@cache
def patterns(name):
    """(pattern, relation, object of a yes/no statement) for every statement of a schema."""
    found = []
    opener = "|".join(map(re.escape, OPENERS[name]))
    for relation in schema(name).relations.values():
        for mark, thing in ((".", None), (".+", "yes"), (".-", "no")):
            for template in relation.lines.get(mark, ()):
                text = re.escape(template).replace(r"\{s\}", f"(?P<s>{shape(relation.subject)})")
                text = text.replace(r"\{o\}", f"(?P<o>{shape(relation.object)})")
                found.append((re.compile(f"(?:{opener})?{text}"), relation.name, thing))
    return tuple(found)


def _lower(name):
    return "the " + name[4:] if name.startswith("The ") else name


def proves(asked, facts):
    """Whether the facts alone prove the answer."""
    return asked.kind != "unanswerable" and prove(asked.query, FactBase.of(facts)) == {asked.answer}


def without(fact, base):
    """The base without one of its facts."""
    return FactBase.of(f for f in base.facts if f != fact)


def read(name, sentence):
    """All facts that a sentence can be read as."""
    facts = set()
    for pattern, relation, thing in patterns(name):
        if match := pattern.fullmatch(sentence):
            groups = match.groupdict()
            facts.add(Fact(_lower(groups["s"]), relation, thing or _lower(groups["o"])))
    return facts
