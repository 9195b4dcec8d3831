"""The invented land behind the bundled samples: people, towns, rivers, lakes, bridges, novels and regions.

    world = make_world(seed=7)
    world["Ada Velmark"].sentences ─► (("born", "Ada Velmark was born in Orsted ..."), (None, "..."), ...)

Each entity has one paragraph of 50 to 110 words; each fact is said in one sentence of it and nowhere else, and every
relation has one answer. Names are put together from syllables; a likeness to a real one would be chance.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

__all__ = ["Entity", "make_world"]


def _words(text: str) -> list[str]:
    return text.split()


_STARTS = _words("Vel Orr Tam Bren Quil Sed Marn Hol Fes Dra Lun Pel Gor Wen Ist Rud Kel Nor Ask Tor Bal Cav Ul Mir")
_TOWN_ENDS = _words("mark sted wick ford holm by gate haven moor thorpe")
_RIVER_ENDS = _words("essen ola ain ick une ara")
_LAKE_ENDS = _words("mere dal ow enz")
_BRIDGE_ENDS = _words("en er ing")
_FAMILY_ENDS = _words("mann dotter ski well brook ley sen wright")
_GIVEN = _words(
    "Ada Bastian Cora Dorian Edda Falk Gesine Hanno Ilse Joram Katrin Levin "
    "Malin Nilo Oda Pirmin Quenby Rurik Selma Tilo Ursa Viggo Wanda Yorick"
)
_ADJECTIVES = _words("Silent Copper Second Broken Winter Hollow Patient Crooked Salted Distant Paper Borrowed")
_NOUNS = _words("Orchard Lantern Harbour Ledger Staircase Mirror Ferry Almanac Granary Compass Window Quarry")
_MATERIALS = _words("glass brandy hats cheese bells barrels rope plums pipes paper eel oil")
_QUALITIES = _words("blue pear felt salted copper oak linen dried clay birch smoked walnut")
_PRODUCTS = [f"{quality} {material}" for quality, material in zip(_QUALITIES, _MATERIALS, strict=True)]

# "kind slot wording", one wording of a sentence a line: a slot is a fact, or "~n" for a sentence that states none.
# Braces name the entity's own fields; the first sentence names the entity.
_TEXT = """
person born {name} was born in {born}, the child of a bookbinder and a midwife.
person born {name}, born in {born} above a bakery, was the youngest of {n} children.
person teacher The decisive influence was {teacher}, under whom {short} studied for {m} years.
person teacher {short} learned the craft from {teacher}, in whose house the lessons were held.
person ~1 The family had kept an inn there for {n} generations and expected the business to be carried on.
person ~1 A scholarship of {n} silver marks paid for the years of training that followed.
person ~2 Letters from this time mention long walks, little sleep and a stubborn dislike of deadlines.
person ~2 Early notebooks show careful drawings of mills, gates and staircases beside pages of accounts.
person ~3 Later life was quiet: a small flat, a large library and a garden that neighbours still remember.
person ~3 In later years {short} gave lectures on Thursday evenings and refused every public honour.
town river {name} is a market town on the {river}, which divides it into an upper and a lower quarter.
town river The town of {name} grew around a ford across the {river} and still turns its face to the water.
town ~1 About {k} hundred people live there, most of them in stone houses from the last century.
town ~1 At the latest count it had {k} hundred inhabitants and {n} public schools.
town ~2 A fire destroyed the old centre in {year}; the rebuilt square has arcades on three sides.
town ~2 The town hall of {year} was paid for by a toll on carts and is now a concert room.
town ~3 Its autumn fair lasts {m} days and ends with a procession of boats carrying paper lamps.
town ~3 Every second summer the guilds race hand-pulled wagons from the church to the mill.
town ~4 The railway arrived late, and the station lies half an hour on foot from the centre.
town ~4 Visitors come for the covered market, the tannery museum and the view from the water tower.
river lake The {name} rises in wooded hills and empties into {lake} after a slow, winding course.
river lake After many bends through meadow land the {name} flows into {lake}.
river length It is {length} kilometres long.
river length Its length is given as {length} kilometres.
river ~1 Barges used it until {year}, when the last lock was closed and the towpath became a road.
river ~1 The {n} locks built before {year} are listed monuments and are opened once a month.
river ~2 In dry years the lower reaches can be crossed on foot, and herons gather on the gravel banks.
river ~2 Spring floods have moved its bed several times, most recently beside the old brickworks.
river ~3 Anglers know it for grayling and for a strict permit that is sold only on market days.
river ~3 Mills once stood at every bend; today {n} of them remain, and one still grinds flour.
lake depth At its deepest point {name} measures {depth} metres.
lake depth {name} is {depth} metres deep at its deepest point.
lake ~1 It was left behind by a glacier and has the shape of a bent arm when seen from the hills.
lake ~1 The shore is mostly reed, with a few beaches of grey sand at the northern end.
lake ~2 A steamer has crossed it since {year} and takes about {m} hours for the round trip.
lake ~2 A rowing club founded in {year} holds its regatta there on the first Sunday of June.
lake ~3 Winters seldom freeze it completely, although sledges were driven across it in {year2}.
lake ~3 The water is unusually clear, because the inflow passes through a wide belt of gravel.
lake ~4 An island near the middle carries the ruins of a chapel and a colony of noisy gulls.
lake ~4 Around {n} boathouses line the southern bank, several of them on oak piles.
bridge designer The {name} was designed by {designer} and opened to carts and walkers in {year}.
bridge designer {designer} drew the plans of the {name}, which was opened in {year}.
bridge ~1 It has {n} arches of pale brick and a roadway so narrow that two wagons can hardly pass.
bridge ~1 Its {n} iron spans were cast in one foundry and floated to the site on rafts.
bridge ~2 A toll was taken until the debt had been paid, which took {k} years longer than promised.
bridge ~2 Critics called it too heavy at first, yet it withstood the flood that took its neighbour.
bridge ~3 The lamps on the parapet are copies; the originals are kept in a cellar of the town hall.
bridge ~3 Repairs in {year2} replaced the railings and strengthened the two middle piers.
bridge ~4 Painters liked to show it in fog, and a small picture of it hangs in many inns.
bridge ~4 At midsummer it is closed to traffic, and long tables are set out from end to end.
novel author {name} is a novel by {author}, first printed in {year} in a run of {k} hundred copies.
novel author {author} wrote the novel {name}, which was published in {year} after long delays.
novel ~1 It follows {n} sisters who inherit a bankrupt print shop and a locked cabinet.
novel ~1 It tells of a surveyor who is sent to measure a valley that is missing from all maps.
novel ~2 Reviewers praised the dry humour of the dialogue and complained about the length of the letters.
novel ~2 The first reviews were cool, but readers passed the book from hand to hand.
novel ~3 A stage version ran for {m} seasons, with an ending that the book does not have.
novel ~3 A second edition of {year2} restored a chapter that the first printer had lost.
novel ~4 Manuscript pages show that the last chapter was written first and hardly changed.
novel ~4 The story is told in {n} parts, each of which opens with the same weather report.
region capital The capital of {name} is {capital}, where the regional assembly meets {m} times a year.
region capital {name} is governed from its capital, {capital}, by an assembly of {k} members.
region product The region is known above all for its {product}.
region product Its best-known product, sold far beyond the border, is {product}.
region ~1 Hills cover most of the north, while the south is flat, wet and thinly settled.
region ~1 Most villages lie along two valleys that meet near the old customs house.
region ~2 Until {year} it was ruled by a council of abbots, and boundary stones with keys still stand.
region ~2 A land reform in {year} split the large estates into about {k} hundred farms.
region ~3 The dialect has {n} words for drizzle, a fact that no travel guide leaves out.
region ~3 Its flag shows a heron on a green field and is flown on market days.
"""


@dataclass(frozen=True)
class Entity:
    """A thing with one paragraph: facts by name, and sentences with the fact each of them states (None: filler)."""

    kind: str
    name: str
    facts: dict[str, str] = field(default_factory=dict)
    sentences: tuple[tuple[str | None, str], ...] = ()

    def sentence(self, fact: str) -> int:
        """Position of the sentence that states `fact`."""
        return [stated for stated, _ in self.sentences].index(fact)


def _wordings() -> dict[str, dict[str, list[str]]]:
    """_TEXT as kind -> slot -> wordings, in the order written."""
    text: dict[str, dict[str, list[str]]] = {}
    for line in _TEXT.strip().splitlines():
        kind, slot, wording = line.split(" ", 2)
        text.setdefault(kind, {}).setdefault(slot, []).append(wording)
    return text


def _take(rng: random.Random, starts: list[str], ends: list[str], count: int) -> list[str]:
    names = [start + end for start in starts for end in ends]
    rng.shuffle(names)
    return names[:count]


def _names(rng: random.Random) -> dict[str, list[str]]:
    families = _take(rng, _STARTS, _FAMILY_ENDS, 48)
    given = [_GIVEN[i % len(_GIVEN)] for i in range(48)]
    titles = [f"The {a} {n}" for a, n in zip(_ADJECTIVES, rng.sample(_NOUNS, len(_NOUNS)), strict=True)]
    titles += [f"A {a} {n}" for a, n in zip(_ADJECTIVES, rng.sample(_NOUNS, len(_NOUNS)), strict=True)]
    towns = _take(rng, _STARTS, _TOWN_ENDS, 36)
    return {
        "person": [f"{g} {f}" for g, f in zip(given, families, strict=True)],
        "town": towns,
        "river": [f"River {n}" for n in _take(rng, _STARTS, _RIVER_ENDS, 24)],
        "lake": [f"Lake {n}" for n in _take(rng, _STARTS, _LAKE_ENDS, 20)],
        "bridge": [f"{n} Bridge" for n in _take(rng, _STARTS, _BRIDGE_ENDS, 24)],
        "novel": titles,
        "region": [n + "land" for n in rng.sample(_STARTS, len(_PRODUCTS))],
    }


def _links(rng: random.Random, names: dict[str, list[str]]) -> dict[str, dict[str, str]]:
    """The relations: a capital and a product belong to one region; lengths, depths and years are all different."""
    facts: dict[str, dict[str, str]] = {name: {} for group in names.values() for name in group}
    numbers = {name: str(number) for name, number in zip(facts, rng.sample(range(41, 399), len(facts)), strict=True)}
    years = {name: str(year) for name, year in zip(facts, rng.sample(range(1701, 1939), len(facts)), strict=True)}
    for name in facts:
        facts[name]["year"] = years[name]
    for at, person in enumerate(names["person"]):
        facts[person]["born"] = rng.choice(names["town"])
        facts[person]["teacher"] = names["person"][(at + 7) % len(names["person"])]
    for town in names["town"]:
        facts[town]["river"] = rng.choice(names["river"])
    for at, river in enumerate(names["river"]):
        facts[river] |= {"lake": names["lake"][at % len(names["lake"])], "length": numbers[river]}
    for lake in names["lake"]:
        facts[lake]["depth"] = numbers[lake]
    for kind, relation in (("bridge", "designer"), ("novel", "author")):
        for name, person in zip(names[kind], rng.sample(names["person"], len(names[kind])), strict=True):
            facts[name][relation] = person
    capitals = rng.sample(names["town"], len(names["region"]))
    for region, capital, product in zip(names["region"], capitals, _PRODUCTS, strict=True):
        facts[region] |= {"capital": capital, "product": product}
    return facts


def make_world(seed: int) -> dict[str, Entity]:
    """All entities by name; the same seed gives the same land."""
    rng = random.Random(seed)
    names = _names(rng)
    links = _links(rng, names)
    text = _wordings()
    world: dict[str, Entity] = {}
    for kind, group in names.items():
        for name in group:
            own = links[name]
            filler = {"n": rng.randint(3, 9), "m": rng.randint(2, 8), "k": rng.randint(11, 39)}
            later = int(own["year"]) + rng.randint(12, 60)
            values = {**own, **filler, "year2": later, "name": name, "short": name.split()[-1]}
            sentences = tuple(
                (None if slot.startswith("~") else slot, rng.choice(wordings).format(**values))
                for slot, wordings in text[kind].items()
            )
            world[name] = Entity(kind, name, own, sentences)
    return world
