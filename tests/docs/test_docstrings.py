"""Docstrings name only files and parameters that exist."""

import ast
import re

import pytest

from tests.docs.pages import ROOT

FOLDERS = ("harness", "methods", "reports", "packages")
SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
_FILE = re.compile(r"(?<![\w/.*<~-])((?:[\w-]+/)*[a-z_][\w-]*\.py)\b")
# "name: what it is" at the beginning of a paragraph or behind a semicolon, as the project lists parameters.
_PARAMETER = re.compile(r"(?:^|; )([a-z][a-z0-9_]*(?:, [a-z][a-z0-9_]*)*): (?=[a-zA-Z(\"])")
# Files of users in examples, and of the benchmarks' own repositories.
_ELSEWHERE = re.compile(r"(mine|lead)\.py|\w*evaluat\w*\.py|(^|/)(eval|metrics|answer|support|evaluation_tracker)\.py")


def documented(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield node, text


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_that_docstrings_and_comments_name_exist(folder):
    known = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")}
    gone = []
    for path in (path for path in SOURCES if path.is_relative_to(ROOT / folder)):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        said = "\n".join([*(text for _, text in documented(tree)), *re.findall(r"#.*", text)])
        named = {name for name in _FILE.findall(said) if not _ELSEWHERE.search(name)}
        own = {name for name in named if any(other == name or other.endswith(f"/{name}") for other in known)}
        gone += [f"{path.relative_to(ROOT)}: {name}" for name in sorted(named - own)]
    assert not gone, "\n".join(gone)


@pytest.mark.parametrize("folder", FOLDERS)
def test_parameters_that_docstrings_explain_exist(folder):
    gone = []
    for path in (path for path in SOURCES if path.is_relative_to(ROOT / folder)):
        for node, text in documented(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            a = node.args
            own = {arg.arg for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg) if arg}
            for paragraph in text.split("\n\n"):
                named = [name for group in _PARAMETER.findall(paragraph) for name in group.split(", ")]
                if own & set(named):  # else the words are keys of what is returned
                    gone += [f"{path.relative_to(ROOT)}: {node.name}: {name}" for name in named if name not in own]
    assert not gone, "\n".join(gone)
