"""GraphRAG: communities, reports on them, local and global search."""

import json

import networkx
import pytest

from harness.llm.scripted import Rule
from harness.types import Document, Question
from methods.communities import Community, find_communities, finest_community_of_nodes
from methods.graphrag import GraphRAG, points_in, report_in
from tests.methods.conftest import FakeTools, WordEncoder

TEXT = (
    "Toren wrote the novel Velindra in Kelford. Mira sold boats to Odo by the river Orne far away."
)
QUESTION = Question("q", "Where was the novel written by Toren printed?", ("d",))
FIRST = [
    ["entity", "Toren", "person", "wrote Velindra"],
    ["entity", "Velindra", "work", "a novel written by Toren"],
    ["entity", "Kelford", "geo", "a town"],
    ["relation", "Toren", "Velindra", "wrote it", "authorship", 8],
    ["relation", "Velindra", "Kelford", "was written there", "place", 5],
]
SECOND = [
    ["entity", "Mira", "person", "sold boats"],
    ["entity", "Odo", "person", "bought boats"],
    ["relation", "Mira", "Odo", "sold boats to", "trade", 2],
]
REPORTS = {
    "TOREN": {"title": "Toren", "summary": "He wrote Velindra.", "rating": 7, "findings": ["A"]},
    "MIRA": {"title": "Mira", "summary": "She sold boats.", "rating": "3", "findings": ["B"]},
}
BUILD = [
    Rule(when="Many are missing", reply="[]"),
    Rule(when="Text:\nToren wrote", reply=json.dumps(FIRST)),
    Rule(when="Text:\nMira sold", reply=json.dumps(SECOND)),
    Rule(when="Text:\nriver", reply="[]"),
    *(
        Rule(when=f"Write a report on a group of entities and how they are related.\n\n"
                  f"Entities and relations:\n{name}", reply=json.dumps(report))
        for name, report in REPORTS.items()
    ),
]  # fmt: skip
POINTS = [
    Rule(
        when="Reports:\n# Mira",
        reply='{"points": [{"description": "Boats were sold.", "score": 20}]}',
    ),
    Rule(
        when="Reports:\n# Toren",
        reply='{"points": [{"description": "In Kelford.", "score": "90"}, {"description": "x", "score": 0}]}',
    ),
    Rule(when="Answer:", reply="Kelford"),
]


def searched(replies, **params):
    params = {"segment_tokens": 7, "overlap": 0, "largest_component": False, **params}
    encoder = WordEncoder()
    method = GraphRAG(GraphRAG.Config(**params))
    document = Document("d", TEXT)
    builder = FakeTools(BUILD, similarity=encoder)
    index = method.index(document, builder)
    tools = FakeTools(replies, similarity=encoder)
    return method.answer(QUESTION, [document], [index], tools), index, tools


def test_each_community_gets_a_report():
    _, index, _ = searched(POINTS, mode="global")
    names = [item[0][0] for item in index["items"]]
    rows = [(row[0], sorted(names[n] for n in row[1]), row[2], row[4]) for row in index["reports"]]
    assert sorted(rows) == [
        (0, ["KELFORD", "TOREN", "VELINDRA"], "Toren", 7.0),
        (0, ["MIRA", "ODO"], "Mira", 3.0),
    ]


def test_entities_outside_the_largest_component_have_no_report():
    _, index, _ = searched(POINTS, mode="global", largest_component=True)
    assert [row[2] for row in index["reports"]] == ["Toren"]


def test_global_search_reads_the_best_points_of_all_reports():
    answer, _, tools = searched(POINTS, mode="global", budget=10)
    assert (answer.text, answer.stop_reason) == ("Kelford", "2 of 2 points of 2 batches")
    assert "Text:\n(importance 90) In Kelford.\n\n(importance 20) Boats" in tools.reader.prompts[-1]
    assert [step.action for step in answer.steps] == ["points", "points"]
    (shown,) = answer.shown
    assert {TEXT[start:end].strip() for _, start, end in shown.sources} == {
        "Toren wrote the novel Velindra in Kelford.",
        "Mira sold boats to Odo by the",
    }
    usage = tools.meter.usage()
    assert (usage["search"]["requests"], usage["answer"]["requests"]) == (2, 1)


def test_without_a_helpful_point_there_is_no_answer():
    answer, _, _ = searched([Rule(reply='{"points": []}')], mode="global")
    assert (answer.text, answer.stop_reason) == ("unanswerable", "no report helps")


def test_local_search_reads_what_is_around_the_entities_of_the_question():
    answer, _, tools = searched([Rule(when="Answer:", reply="Kelford")], k=1)
    assert answer.stop_reason == "1 entities, 2 relations, 1 reports, 1 of 1 chunks"
    (prompt,) = tools.reader.prompts
    listed = prompt.partition("Text:\n")[2]
    assert listed.startswith(
        "Reports:\n# Toren\nHe wrote Velindra.\nA\n\n"
        "Entities:\nVELINDRA | a novel written by Toren | WORK | 2\n\n"
        "Relations:\nTOREN | VELINDRA | wrote it | authorship | 8 | 3\n"
        "KELFORD | VELINDRA | was written there | place | 5 | 3\n\n"
        "Sources:\n\nToren wrote the novel Velindra in Kelford."
    )
    assert answer.steps[0].note == "VELINDRA"


def test_a_large_community_has_communities_in_it():
    """A ring of 30 cliques: the whole graph's modularity joins neighbours, which one by one part."""
    edges = [(a, b, 1.0) for a, b in networkx.ring_of_cliques(30, 5).edges]
    found = find_communities(edges, 9)
    assert {community.level for community in found} == {0, 1}
    assert sorted(finest_community_of_nodes(found, 0)) == list(range(150))
    fine = [community for community in found if community.level == 1]
    assert {len(community.nodes) for community in fine} == {5}
    assert find_communities(edges, 150) == [
        community for community in found if community.level == 0
    ]


def test_of_levels_that_are_too_fine_the_coarser_community_counts():
    found = [Community(0, (1, 2, 3)), Community(1, (1, 2)), Community(1, (3,))]
    assert finest_community_of_nodes(found, 1) == {1: 1, 2: 1, 3: 2}
    assert finest_community_of_nodes(found, 0) == {1: 0, 2: 0, 3: 0}


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ('{"title": "T", "summary": "S", "rating": "6", "findings": [{"summary": "a", "explanation": "b"}]}',
         ("T", "S\na: b", 6.0)),
        ('{"title": "T"}', None),
        ("I cannot.", None),
    ],
)  # fmt: skip
def test_a_report_is_read_tolerantly(reply, found):
    assert report_in(reply) == found


def test_points_without_a_text_are_left_out():
    reply = 'Here: {"points": [{"description": "a", "score": "7"}, {"score": 3}, 4]}'
    assert points_in(reply) == [("a", 7)]
    assert points_in("no") is None
