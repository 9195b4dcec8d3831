"""Supporting paragraphs put at a place: orders worked by hand, and that nothing but the order
changes."""

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml
from harness_audit.position import support_position
from hypothesis import given, settings
from hypothesis import strategies as st
from pocket.world.sample import KINDS, sample

from harness.config.schema import DatasetConfig
from harness.datasets import load
from harness.datasets.formats import option_fields
from harness.datasets.place_options import PLACED, Placement, PlaceOptions, placement_from_options
from harness.datasets.placing import split_options, with_support_moved
from harness.datasets.rows import Row
from harness.errors import ConfigError
from reports.gold_rows import QuestionRows
from tests.datasets.support import check_refused

ROOT = Path(__file__).resolve().parents[2]


def row(names, supporting, length=6):
    """A paragraph for each letter, `length` characters each with title, line break and the blank
    line after it."""
    paragraphs = tuple((letter, letter * (length - 4)) for letter in names)
    return Row(
        "q", "?", paragraphs, ("a",), supporting, {"supporting_paragraphs": list(supporting)}
    )


def order(found):
    return "".join(title for title, _ in found.paragraphs)


@pytest.mark.parametrize(
    ("names", "supporting", "where", "distance", "wanted"),
    [
        ("abcSdT", (3, 5), "head", 0, "STabcd"),
        ("abcSdT", (3, 5), "middle", 0, "abSTcd"),
        ("SabcTd", (0, 4), "tail", 0, "abcdST"),
        ("abcSdT", (3, 5), "head", 0.5, "SabTcd"),  # 3 of 6 paragraphs from centre to centre
        ("abcSdT", (3, 5), "middle", 0.5, "aSbcTd"),
        ("abcSdT", (3, 5), "tail", 0.5, "abScdT"),
        ("abcSdT", (3, 5), "middle", 1, "SabcdT"),  # the farthest they can be: 5 of 6
        (
            "abSTUcde",
            (2, 3, 4),
            "head",
            0.5,
            "SaTbUcde",
        ),  # what stands between three is spread evenly
        ("abcdS", (4,), "head", 0, "Sabcd"),
        ("abcdS", (4,), "middle", 0, "abScd"),
        ("Sabcd", (0,), "tail", 0, "abcdS"),
        ("Sabcd", (0,), "middle", 1, "abScd"),  # one paragraph has no distance
        ("abc", (), "tail", 0.5, "abc"),
        ("ST", (0, 1), "tail", 0.5, "ST"),
    ],
)
def test_orders_by_hand(names, supporting, where, distance, wanted):
    found = with_support_moved(row(names, supporting), Placement(where, distance))
    assert order(found) == wanted
    assert [found.paragraphs[at][0] for at in found.supporting] == [names[at] for at in supporting]
    assert found.extra == {"supporting_paragraphs": list(supporting)}, (
        "its numbers are those of the row"
    )


def test_characters_count_and_not_paragraphs():
    paragraphs = (
        ("S", "s"),
        ("a", "x" * 95),
        ("b", "x"),
        ("c", "x"),
        ("d", "x"),
    )  # 5 characters, 99, and three of 5
    found = with_support_moved(Row("q", "?", paragraphs, ("a",), (0,)), Placement("middle"))
    assert (
        order(found) == "aSbcd"
    )  # its centre is at 101.5 of 119 characters there, and at 2.5 before the long one


PLACES = st.sampled_from(["head", "middle", "tail"])


@settings(max_examples=40)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.data(), PLACES, st.floats(0, 1))
def test_only_the_order_changes(sizes, data, where, distance):
    supporting = data.draw(st.lists(st.integers(0, len(sizes) - 1), unique=True, max_size=4))
    paragraphs = tuple((f"t{n}", "x" * size) for n, size in enumerate(sizes))
    before = Row("q", "?", paragraphs, ("a",), tuple(supporting))
    after = with_support_moved(before, Placement(where, distance))
    assert Counter(after.paragraphs) == Counter(before.paragraphs)
    assert [after.paragraphs[at] for at in after.supporting] == [
        paragraphs[at] for at in supporting
    ]
    for chosen in (set(supporting), set(range(len(sizes))) - set(supporting)):
        kept = [p for p in after.paragraphs if p in {paragraphs[at] for at in chosen}]
        assert kept == [paragraphs[at] for at in sorted(chosen)], "each group keeps its order"
    assert with_support_moved(after, Placement(where, distance)).paragraphs == after.paragraphs
    if supporting and where == "head":
        assert min(after.supporting) == 0
    if supporting and where == "tail":
        assert max(after.supporting) == len(sizes) - 1


def test_what_the_options_ask_for():
    assert placement_from_options(PlaceOptions()) is None
    assert placement_from_options(PlaceOptions(distance=0)) == Placement("middle", 0.0)
    assert placement_from_options(PlaceOptions(place="head")) == Placement("head")
    assert split_options({"tokens": 3, "place": "tail", "distance": 1}) == (
        Placement("tail", 1.0),
        {"tokens": 3},
    )
    assert str(Placement("head")) == "support at the head"
    assert str(Placement("middle", 0.5)) == "support at the middle, 0.5 of the text apart"


def config(kind="musique", **options):
    fields = yaml.safe_load(
        (ROOT / f"packages/pocket/pocket/configs/datasets/pocket/{kind}.yaml").read_text()
    )
    merged = {**fields["options"], "tokens": 1200, "questions": 12, "hops": [2], **options}
    return DatasetConfig.model_validate(
        {k: v for k, v in fields.items() if k != "summary"} | {"options": merged}
    )


@pytest.mark.parametrize("kind", PLACED)
def test_the_same_questions_stand_at_every_place(kind):
    plain = load(config(kind))
    for number, where in enumerate(("head", "middle", "tail")):
        data = load(config(kind, place=where))
        assert [e.question for e in data.examples] == [e.question for e in plain.examples]
        assert [e.gold.answers for e in data.examples] == [e.gold.answers for e in plain.examples]
        assert data.fingerprint != plain.fingerprint
        assert data.source.endswith(f"support at the {where}")
        for example, other in zip(data.examples, plain.examples, strict=True):
            ((name, document),) = [(n, data.documents[n]) for n in example.question.document_ids]
            assert Counter(document.text.split("\n\n")) == Counter(
                plain.documents[name].text.split("\n\n")
            )
            assert marked(example, document) == marked(other, plain.documents[name])
            found = support_position(example, QuestionRows(documents=data.documents))
            assert found is not None
            assert found.third_of_text() == number
            assert (found.distance() or 0) < 0.1


def marked(example, document):
    return {document.text[s.start : s.end] for s in example.gold.supporting}


@pytest.mark.parametrize("distance", [0.25, 0.5, 0.75])
def test_the_distance_is_the_one_asked_for(distance):
    def distances(data):
        found = [support_position(e, QuestionRows(documents=data.documents)) for e in data.examples]
        return [p.distance() for p in found if p is not None and p.distance() is not None]

    measured = distances(load(config("hotpotqa", distance=distance)))
    assert len(measured) >= 9
    assert all(abs(d - distance) < 0.06 for d in measured)
    assert min(distances(load(config("hotpotqa", distance=1, place="tail")))) > 0.9


def test_without_a_place_the_bytes_are_those_of_before():
    made = sample("musique", 0, tokens=1200, purpose="evaluation", hops=(2,))
    assert load(config()).documents[made.documents[0].id] == made.documents[0]
    assert load(config(place=None, distance=None)).fingerprint == load(config()).fingerprint


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "musique",
            {"place": "front"},
            "dataset.place='front': should be 'head', 'middle' or 'tail'",
        ),
        ("musique", {"distance": 1.5}, "dataset.distance=1.5: should be less than or equal to 1"),
        ("musique", {"distance": True}, "dataset.distance=True: should be a valid number"),
        ("musique", {"plce": "head"}, "Did you mean 'place'"),
        (
            "musique",
            {"distance": 0.5, "hops": [1]},
            "a question of one hop has one supporting paragraph; set",
        ),
        *(
            (
                kind,
                {"place": "head"},
                f"dataset.place: the paragraphs of a text of kind '{kind}' stand in an order of",
            )
            for kind in sorted(set(KINDS) - set(PLACED))
        ),
        (
            "quality",
            {"distance": 0.5},
            "dataset.distance: the paragraphs of a text of kind 'quality' stand in an",
        ),
    ],
)
def test_refused(kind, options, message):
    check_refused(config(kind, **options), message, ConfigError)


def from_file(tmp_path, name, **options):
    fields = yaml.safe_load((ROOT / "configs" / "datasets" / f"{name}.yaml").read_text())
    data = tmp_path / "dev.jsonl"
    rows = [
        sample(name, 0, tokens=800, purpose="evaluation", number=n, hops=(2,)).rows[0]
        for n in range(4)
    ]
    data.write_text("".join(json.dumps(one) + "\n" for one in rows))
    gone = ("summary", "download", "official_questions", "hub", "revision", "subset", "options")
    fields = {k: v for k, v in fields.items() if k not in gone}
    return DatasetConfig.model_validate({**fields, "data": str(data), "options": options})


@pytest.mark.parametrize("name", PLACED)
def test_rows_of_the_papers_data_sets_are_placed_too(name, tmp_path):
    assert [*option_fields(name)] == ["files", "place", "distance"]
    plain, tail = load(from_file(tmp_path, name)), load(from_file(tmp_path, name, place="tail"))
    assert tail.source == "dev.jsonl, support at the tail"
    assert tail.fingerprint != plain.fingerprint
    assert [e.question for e in tail.examples] == [e.question for e in plain.examples]
    for example in tail.examples:
        (end,) = {len(tail.documents[name].text) for name in example.question.document_ids}
        assert max(s.end for s in example.gold.supporting) == end


def test_formats_without_paragraphs_in_any_order_have_no_place(tmp_path):
    assert [*option_fields("qasper")] == ["files"]
    rows = from_file(tmp_path, "musique", place="front")
    check_refused(rows, "dataset.place='front': should be 'head', 'middle' or 'tail'", ConfigError)
    others = {"format": "quality", "options": {"place": "head"}}, {"options": {"plac": "head"}}
    for change, message in zip(
        others, ("unknown key 'place'", "'plac'; did you mean 'place'"), strict=True
    ):
        check_refused(rows.model_copy(update=change), message, ConfigError)
