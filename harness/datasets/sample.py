"""Writes the bundled samples: made-up rows in the official formats of MuSiQue and HotpotQA.

    python -m harness.datasets.sample [FOLDER]        ─► FOLDER/musique.jsonl, FOLDER/hotpotqa.json

Deterministic: the files in `samples/` are what this program writes. Questions follow chains of relations through the
invented land of `sample_world`; a row's other paragraphs are about entities of the same kinds.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.datasets.sample_world import Entity, make_world

__all__ = ["hotpotqa_rows", "main", "musique_rows"]

SEED = 7
World = dict[str, Entity]


@dataclass(frozen=True)
class _Chain:
    """A start of `kind`, the relations followed one after the other, and the question."""

    kind: str
    relations: tuple[str, ...]
    question: str


_CHAINS = (
    _Chain("person", ("born", "river"), "On which river does the town where {0} was born lie?"),
    _Chain("bridge", ("designer", "teacher"), "Who taught the designer of the {0}?"),
    _Chain("town", ("river", "lake"), "Into which lake does the river that flows through {0} empty?"),
    _Chain("novel", ("author", "born"), "In which town was the author of {0} born?"),
    _Chain("region", ("capital", "river"), "Which river flows through the capital of {0}?"),
    _Chain("novel", ("author", "teacher", "born"), "Where was the teacher of the person who wrote {0} born?"),
    _Chain("bridge", ("designer", "born", "river"), "On which river lies the birthplace of the designer of the {0}?"),
    _Chain("person", ("born", "river", "lake"), "Which lake receives the river on which the birthplace of {0} lies?"),
    _Chain("region", ("capital", "river", "length"), "How long is the river that flows through the capital of {0}?"),
    _Chain(
        "bridge",
        ("designer", "born", "river", "lake"),
        "Into which lake flows the river on which the birthplace of the designer of the {0} lies?",
    ),
    _Chain(
        "person",
        ("born", "river", "lake", "depth"),
        "How deep is the lake that receives the river of the town where {0} was born?",
    ),
    _Chain(
        "novel",
        ("author", "teacher", "born", "river"),
        "On which river lies the birthplace of the teacher of the author of {0}?",
    ),
)
_UNITS = {"length": "kilometres", "depth": "metres"}


@dataclass(frozen=True)
class _Hop:
    """One step: the entity whose paragraph proves it, the fact read there, and what it says."""

    entity: Entity
    fact: str
    answer: str


def _follow(world: World, start: Entity, relations: tuple[str, ...]) -> list[_Hop] | None:
    """The hops of a chain from `start`; None where it comes back to an entity."""
    hops: list[_Hop] = []
    here = start
    for relation in relations:
        hops.append(_Hop(here, relation, here.facts[relation]))
        here = world.get(hops[-1].answer, here)
    return hops if len({hop.entity.name for hop in hops}) == len(hops) else None


def _aliases(hop: _Hop) -> tuple[str, list[str]]:
    """The answer as asked for, and other ways to say it."""
    if hop.fact in _UNITS:
        return f"{hop.answer} {_UNITS[hop.fact]}", [hop.answer]
    first, _, rest = hop.answer.partition(" ")
    return hop.answer, [rest] if first in ("River", "Lake") else []


def _paragraphs(world: World, needed: list[Entity], count: int, rng: random.Random) -> list[Entity]:
    """`count` entities in random order: the needed ones and others, kinds in turn so that all look alike."""
    kinds = [entity.kind for entity in needed]
    chosen = list(needed)
    while len(chosen) < count:
        kind = kinds[len(chosen) % len(kinds)]
        chosen.append(rng.choice([e for e in world.values() if e.kind == kind and e not in chosen]))
    rng.shuffle(chosen)
    return chosen


def _pick(world: World, chain: _Chain, used: set[str], rng: random.Random) -> tuple[Entity, list[_Hop]]:
    starts = [e for e in world.values() if e.kind == chain.kind and e.name not in used]
    rng.shuffle(starts)
    for start in starts:
        hops = _follow(world, start, chain.relations)
        if hops is not None:
            used.add(start.name)
            return start, hops
    raise ValueError(f"no chain {chain.relations} in this world; take another seed")


def _musique_row(world: World, number: int, chain: _Chain, used: set[str], rng: random.Random) -> dict[str, Any]:
    start, hops = _pick(world, chain, used, rng)
    shown = _paragraphs(world, [hop.entity for hop in hops], 20, rng)
    position = {entity.name: at for at, entity in enumerate(shown)}
    supporting = {hop.entity.name for hop in hops}
    asked = start.name
    steps = []
    for at, hop in enumerate(hops, start=1):
        steps.append(
            {
                "id": at,
                "question": f"{asked} >> {hop.fact}",
                "answer": _aliases(hop)[0],
                "paragraph_support_idx": position[hop.entity.name],
            }
        )
        asked = f"#{at}"
    answer, aliases = _aliases(hops[-1])
    variant = "" if len(hops) == 2 else "1"
    return {
        "id": f"{len(hops)}hop{variant}__sample_{number:02d}",
        "paragraphs": [
            {
                "idx": at,
                "title": entity.name,
                "paragraph_text": " ".join(sentence for _, sentence in entity.sentences),
                "is_supporting": entity.name in supporting,
            }
            for at, entity in enumerate(shown)
        ],
        "question": chain.question.format(start.name),
        "question_decomposition": steps,
        "answer": answer,
        "answer_aliases": aliases,
        "answerable": True,
    }


def musique_rows() -> list[dict[str, Any]]:
    """Twelve rows in the schema of musique_ans_v1.0: five of 2, four of 3 and three of 4 hops."""
    rng, world, used = random.Random(SEED), make_world(SEED), set[str]()
    return [_musique_row(world, number, chain, used, rng) for number, chain in enumerate(_CHAINS, start=1)]


def _of_kind(world: World, kind: str, rng: random.Random) -> tuple[Entity, Entity]:
    first, second = rng.sample([e for e in world.values() if e.kind == kind], 2)
    return first, second


def _comparisons(world: World, rng: random.Random) -> list[tuple[str, str, list[_Hop]]]:
    """(question, answer, the two facts compared) of the four comparison rows."""

    def facts(fact: str, *pair: Entity) -> list[_Hop]:
        return [_Hop(entity, fact, entity.facts[fact]) for entity in pair]

    one, two = _of_kind(world, "river", rng)
    longer = max(one, two, key=lambda e: int(e.facts["length"]))
    lake, other = _of_kind(world, "lake", rng)
    deeper = max(lake, other, key=lambda e: int(e.facts["depth"]))
    people = [e for e in world.values() if e.kind == "person"]
    pairs = [(a, b) for at, a in enumerate(people) for b in people[at + 1 :]]
    same = rng.choice([p for p in pairs if p[0].facts["born"] == p[1].facts["born"]])
    apart = rng.choice([p for p in pairs if p[0].facts["born"] != p[1].facts["born"]])
    born = "Were {0} and {1} born in the same town?"
    return [
        (f"Which is longer, the {one.name} or the {two.name}?", longer.name, facts("length", one, two)),
        (f"Which is deeper, {lake.name} or {other.name}?", deeper.name, facts("depth", lake, other)),
        (born.format(same[0].name, same[1].name), "yes", facts("born", *same)),
        (born.format(apart[0].name, apart[1].name), "no", facts("born", *apart)),
    ]


def _spaced(entity: Entity) -> list[str]:
    """Its sentences as HotpotQA has them: all but the first begin with a space."""
    return [(" " if at else "") + sentence for at, (_, sentence) in enumerate(entity.sentences)]


def hotpotqa_rows() -> list[dict[str, Any]]:
    """Twelve rows in the schema of hotpot_dev_distractor_v1: eight bridge and four comparison questions."""
    rng, world, used = random.Random(SEED + 1), make_world(SEED), set[str]()
    asked: list[tuple[str, str, str, list[_Hop]]] = []
    two_hop = [chain for chain in _CHAINS if len(chain.relations) == 2]
    for number in range(8):
        chain = two_hop[number % len(two_hop)]
        start, hops = _pick(world, chain, used, rng)
        asked.append(("bridge", chain.question.format(start.name), _aliases(hops[-1])[0], hops))
    asked += [("comparison", question, answer, hops) for question, answer, hops in _comparisons(world, rng)]
    rows = []
    for number, (kind, question, answer, hops) in enumerate(asked, start=1):
        shown = _paragraphs(world, [hop.entity for hop in hops], 10, rng)
        rows.append(
            {
                "_id": f"sample-hotpotqa-{number:02d}",
                "answer": answer,
                "question": question,
                "supporting_facts": [[hop.entity.name, hop.entity.sentence(hop.fact)] for hop in hops],
                "context": [[entity.name, _spaced(entity)] for entity in shown],
                "type": kind,
                "level": ("easy", "medium", "hard")[number % 3],
            }
        )
    return rows


def main(folder: Path) -> None:
    """Write both files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in musique_rows())
    (folder / "musique.jsonl").write_text(lines, encoding="utf-8")
    text = ",\n".join(json.dumps(row, ensure_ascii=False) for row in hotpotqa_rows())
    (folder / "hotpotqa.json").write_text(f"[{text}]\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "samples")
