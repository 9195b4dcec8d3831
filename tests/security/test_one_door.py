"""Files that another process wrote are read through harness/storage/untrusted.py alone."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
INSTALLED = {  # these read what is installed with this program or by pip, and what the system writes
    "harness/cli/list.py",
    "harness/config/registry.py",
    "harness/cost/free_memory.py",
    "harness/datasets/folder.py",  # the user's own pages and questions
    "harness/datasets/twins.py",
    "harness/llm/template.py",
    "harness/storage/own_code_hash.py",
    "harness/storage/lock.py",
    "packages/training/harness_training/question_sets.py",
    "packages/pocket/pocket/world/templates.py",
    "reports/html_tables.py",
    "reports/judges.py",  # labels that the user wrote
    "reports/paper/matrix.py",
    "reports/paper/tables_and_figures.py",
    "reports/paper/printed.py",
    "reports/paper/public_releases.py",
}
OPENED = ("file", "file.name", "io.BytesIO")
PLAIN = """
open("x"); open("x", "r+b"); path.open(); path.open("rb"); path.read_text("utf-8"); path.read_bytes(); np.load("a.npz")
gzip.open("x")
"""
FINE = """
open("x", "rb", opener=plain); open("b", "w"); path.open("a", encoding="utf-8"); np.load(file); Store.open(place, note)
zipfile.ZipFile(file).open(entry)
"""


def plain_reads(source):
    """The calls that open a file by its name for reading: a pipe makes them wait, a device never ends."""
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        function = ast.unparse(call.func)
        modes = [a.value for a in call.args if isinstance(a, ast.Constant) and a.value in ("w", "wb", "a", "ab")]
        checked = bool(modes) or any(key.arg == "opener" for key in call.keywords)
        opens = function in ("open", "gzip.open") or function.endswith("path.open")
        loads = function == "np.load" and ast.unparse(call.args[0]).partition("(")[0] not in OPENED
        if function.endswith((".read_text", ".read_bytes")) or loads or (opens and not checked):
            yield ast.unparse(call)


def test_the_search_finds_plain_reads_and_no_others():
    assert len(list(plain_reads(PLAIN))) == 8
    assert list(plain_reads(FINE)) == []


def test_what_others_wrote_is_read_through_one_door():
    files = [
        p
        for room in (
            "harness",
            "reports",
            "methods",
            "packages/pocket/pocket",
            "packages/training/harness_training",
            "packages/audit/harness_audit",
        )
        for p in sorted((ROOT / room).rglob("*.py"))
    ]
    found = {p.relative_to(ROOT).as_posix(): list(plain_reads(p.read_text("utf-8"))) for p in files}
    assert {name: calls for name, calls in found.items() if calls and name not in INSTALLED} == {}
    assert {name for name in INSTALLED if not found[name]} == set()
