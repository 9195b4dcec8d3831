import pytest

from harness.storage.records import StoredRecord
from harness.types import Document, Example, Gold, Question, Support
from reports.evidence import evidence_of_piece, nodes_with_evidence
from reports.gold_rows import QuestionRows
from reports.search_graph import Graph
from tests.reports.build import record, span
from tests.reports.searches import made, searched


def example(*supports, documents=("d0",)):
    return Example(Question("q0", "?", documents), Gold(("a",), supports))


class TestEvidence:
    @pytest.mark.parametrize(
        ("place", "expected"),
        [((0, 5), "no"), ((4, 6), "yes"), ((5, 9), "yes"), ((8, 20), "yes"), ((9, 13), "no")],
    )
    def test_a_span_that_overlaps_a_supporting_part(self, place, expected):
        shown = span("d0", *place)
        assert evidence_of_piece(shown, example(Support("d0", 5, 9))) == expected
        assert (
            evidence_of_piece(shown | {"document_id": "d1"}, example(Support("d0", 5, 9))) == "no"
        )
        assert evidence_of_piece(shown, example()) == "-"
        assert evidence_of_piece(shown, None) == "-"
        assert evidence_of_piece(None, example()) == ""

    def test_a_text_written_from_a_supporting_part(self):
        shown = {
            "kind": "generated",
            "document_id": "",
            "start": 0,
            "end": 9,
            "text": "x",
            "sources": [["d0", 0, 6]],
        }
        assert evidence_of_piece(shown, example(Support("d0", 5, 9))) == "source"
        assert evidence_of_piece(shown, example(Support("d0", 6, 9))) == "no"

    def rows(self, asked, **texts):
        return QuestionRows(
            {"q0": asked}, {name: Document(name, text) for name, text in texts.items()}
        )

    def test_supporting_nodes_visited_or_not(self, tmp_path):
        run = searched(tmp_path, "0" * 64)
        rows = self.rows(example(Support("d0", 8, 10)), d0="x" * 19)
        assert nodes_with_evidence(made().spans, run, run.records[0], rows) == {1, 2}
        assert (
            nodes_with_evidence(
                made().spans, run, run.records[0], self.rows(example(), d0="x" * 19)
            )
            == set()
        )
        assert nodes_with_evidence(made().spans, run, run.records[0], QuestionRows()) == set()

    def test_spans_of_joined_documents_are_mapped_back(self, tmp_path):
        run = searched(tmp_path, "0" * 64)
        joined = StoredRecord.from_json(
            record(0, 0.5, document_ids=["d0", "d1"], notes={"joined": 2})
        )
        # d0 fills 0-7, a blank line 7-9, d1 9-19: d1[0:3] is in the chunk 9-13 of the joined text,
        # d0[0:3] in 0-5
        rows = self.rows(
            example(Support("d1", 0, 3), documents=("d0", "d1")), d0="x" * 7, d1="y" * 10
        )
        assert nodes_with_evidence(made().spans, run, joined, rows) == {2}
        rows = self.rows(
            example(Support("d0", 0, 3), documents=("d0", "d1")), d0="x" * 7, d1="y" * 10
        )
        assert nodes_with_evidence(made().spans, run, joined, rows) == {0}

    def test_spans_of_a_cut_document_are_mapped_back(self, tmp_path):
        view = {"name": "m", "implementation": "m:M", "view": "evidence", "params": {}}
        run = searched(tmp_path, "0" * 64, settings={"method": view})
        # The method was handed d0[50:57], which are the chunks 0-5 and 5-7 of it.
        rows = self.rows(example(Support("d0", 50, 57)), d0="x" * 100)
        graph = Graph(
            made().texts,
            made().levels,
            made().edges,
            ((0, 5), (5, 7), (50, 57), None, None, None, None),
        )
        assert nodes_with_evidence(graph.spans, run, run.records[0], rows) == {0, 1}
