"""Who may import whom around the command line; imports inside functions and for types count."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def imports(path: Path) -> set[str]:
    """The modules that a file imports anywhere, with what it takes from them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def offenders(files: list[Path], package: str) -> list[str]:
    assert files
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        if package.rpartition(".")[2] in path.read_text("utf-8")  # parsing only these takes 0.5 s, all of them 3 s
        for name in imports(path)
        if name == package or name.startswith(f"{package}.")
    ]


def test_only_the_command_line_imports_the_command_line() -> None:
    inside = ROOT / "harness" / "cli"
    files = [p for p in (ROOT / "harness").rglob("*.py") if inside not in p.parents and p.name != "__main__.py"]
    others = [p for name in ("reports", "methods") for p in (ROOT / name).rglob("*.py")]
    assert offenders(files + others, "harness.cli") == []


def test_the_command_line_knows_no_commands_from_outside_by_name() -> None:
    files = list((ROOT / "harness" / "cli").glob("*.py"))
    assert offenders(files, "pocket") == []
    assert offenders(files, "methods") == []


def test_an_import_is_seen_wherever_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("def f():\n    from harness import cli\n    import pocket.eval\n")
    assert {"harness.cli", "pocket.eval"} <= imports(path)
