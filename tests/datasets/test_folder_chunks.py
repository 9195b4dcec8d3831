"""Chunks of a folder end where its pages and sections do, by the installed command."""

import json

import pytest

from harness.datasets.folder import join_pages
from harness.datasets.folder_pages import read_pages

PAGES = {
    "a.md": "# Pumps\n\n" + "The pump runs for two years without oil.\n\n" * 40,
    "b.txt": "Lunch is at noon.\n",
    "c.md": "# Travel\n\nTrains leave at nine.\n\n## Hotels\n\nRooms are booked in Ghent.\n",
}
STARTS = ("Pumps", "b", "Travel", "Travel: Hotels")


@pytest.fixture
def shown(here, tmp_path):
    """The texts of all chunks that a method shows of the folder."""
    pages = tmp_path / "wiki"
    pages.mkdir()
    for name, text in PAGES.items():
        (pages / name).write_text(text)
    (tmp_path / "questions.jsonl").write_text('{"id": "q1", "question": "When is lunch?"}\n')

    def call(method, *settings):
        here(
            "run", "--method", method, "--documents", "wiki", "--questions", "questions.jsonl",
            "--model", "pocket-llama", "--mlflow", "off", "--set", "method.k=40", *settings,
        ).checked()  # fmt: skip
        (record,) = (tmp_path / "results" / "wiki").glob(f"{method}--*/records.jsonl")
        spans = [(one["start"], one["end"]) for one in json.loads(record.read_text())["shown"]]
        document, _ = join_pages("all", read_pages(pages).pages)
        return [document.text[start:end] for start, end in sorted(spans)]

    return call


@pytest.mark.parametrize("method", ["bm25", "hybrid"])
def test_no_chunk_runs_across_pages_or_sections(shown, method):
    chunks = shown(method)
    heads = [[line for line in chunk.splitlines() if line in STARTS] for chunk in chunks]
    assert [head for head in heads if head] == [[start] for start in STARTS]
    assert "b\nLunch is at noon." in chunks


def test_a_chunk_has_the_full_stop_of_its_last_sentence(shown):
    chunks = shown("bm25", "method.chunk_tokens=10")
    assert len(chunks) > 10
    assert not [chunk for chunk in chunks if chunk[0] in ".\n "]
