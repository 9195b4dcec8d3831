"""`python -m bench.results`: documents get the tables of stored runs, and a bundle has no texts."""

import zipfile

import pytest

from bench import results
from tests.reports.build import record, write_run

MARKS = f"before\n{results.BEGIN}\nreplaced text\n{results.END}\nafter\n"
START = {
    "started": "2026-01-02T03:00:00+00:00",
    "finished": "2026-01-02T03:04:00+00:00",
    "state": "finished",
}


@pytest.fixture
def documents(tmp_path, monkeypatch, command):
    """A README.md and docs/results.md with marks, in place of the project's; returns their folder."""
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/results.md"):
        (tmp_path / name).write_text(MARKS)
    monkeypatch.setattr(results, "ROOT", tmp_path)
    monkeypatch.setattr(results, "harness", lambda *arguments: command(*arguments)[1])
    return tmp_path


def test_documents_get_the_tables_and_a_bundle_without_texts(documents, tmp_path):
    rows = [record(n, 1.0, question=f"who is number {n}") for n in range(6)]
    cut = [record(n, 0.5, truncated={"side": "middle"}) for n in range(6)]
    for method, records in (("bm25", rows), ("closed-book", cut)):
        write_run(
            tmp_path / "runs", records, method=method, manifest={"starts": [START], "cpus": 2}
        )
    results.main(str(tmp_path / "runs"))
    readme = (tmp_path / "README.md").read_text()
    page = (tmp_path / "docs/results.md").read_text()
    for text in (readme, page):
        assert text.startswith("before\n")
        assert text.endswith(f"{results.END}\nafter\n")
        assert "bm25" in text
        assert "replaced text" not in text
    assert "6 of 6 questions were answered from a truncated context" not in readme
    assert "6 of 6 questions were answered from a truncated context" in page
    assert "8 minutes on a machine with 2 cores" in page
    with zipfile.ZipFile(tmp_path / "docs/bundles/musique.zip") as bundle:
        content = b"".join(bundle.read(name) for name in bundle.namelist())
    assert b"closed-book" in content
    assert b"who is number" not in content


def test_the_second_readers_table_replaces_nothing_else(documents, tmp_path):
    page = tmp_path / "docs/results.md"
    page.write_text(f"{MARKS}{results.BEGIN_SECOND_READER}\nalso replaced\n{results.END}\nend\n")
    records = [record(n, 1.0) for n in range(6)]
    manifest = {"starts": [START], "cpus": 2}
    write_run(tmp_path / "runs", records, method="bm25", manifest=manifest)
    results.write_second_reader(str(tmp_path / "runs"))
    first, second = page.read_text().split(results.BEGIN_SECOND_READER)
    assert first == MARKS
    assert second.endswith(f"{results.END}\nend\n")
    assert "bm25" in second
    assert "also replaced" not in second
    assert "replaced text" in (tmp_path / "README.md").read_text()
