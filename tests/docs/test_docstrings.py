"""Docstrings name only files and parameters that exist."""

import ast
import re

from tests.docs.pages import FOLDERS, ROOT, trees

_FILE = re.compile(r"(?<![\w/.*<~-])((?:[\w-]+/)*[a-z_][\w-]*\.py)\b")
# "name: what it is" at the beginning of a paragraph or behind a semicolon, as the project lists
# parameters.
_PARAMETER = re.compile(r"(?:^|; )([a-z][a-z0-9_]*(?:, [a-z][a-z0-9_]*)*): (?=[a-zA-Z(\"])")
# Files of users in examples, and of the benchmarks' own repositories.
_ELSEWHERE = re.compile(
    r"(mine|lead)\.py|\w*evaluat\w*\.py|(^|/)(eval|metrics|answer|support|evaluation_tracker)\.py"
    r"|(^|/)(run_model_on_babilong|collect_results|eval_alce|eval_(data|other)_utils)\.py"
    r"|^(evaluation/run_tests|data/book_haystack|(src/evaluation/)?compute_metrics|src/prompts)\.py"
    r"|^(Evaluation/(auto_eval|automatic_metrics)|em)\.py"
)


def documented(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield node, text


def test_files_that_docstrings_and_comments_name_exist():
    folders = (*FOLDERS, "tests", "bench", "configs")
    known = {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
    }
    known |= {path.name for path in ROOT.glob("*.py")}
    ends = {path[at:] for path in known for at in (0, *(m.end() for m in re.finditer("/", path)))}
    gone = []
    for path, text, tree in trees():
        said = "\n".join([*(text for _, text in documented(tree)), *re.findall(r"#.*", text)])
        named = {name for name in _FILE.findall(said) if not _ELSEWHERE.search(name)}
        gone += [f"{path.relative_to(ROOT)}: {name}" for name in sorted(named - ends)]
    assert not gone, "\n".join(gone)


def test_parameters_that_docstrings_explain_exist():
    gone = []
    for path, _, tree in trees():
        for node, text in documented(tree):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            a = node.args
            own = {
                arg.arg
                for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg)
                if arg
            }
            for paragraph in text.split("\n\n"):
                named = [
                    name for group in _PARAMETER.findall(paragraph) for name in group.split(", ")
                ]
                if own & set(named):  # else the words are keys of what is returned
                    gone += [
                        f"{path.relative_to(ROOT)}: {node.name}: {name}"
                        for name in named
                        if name not in own
                    ]
    assert not gone, "\n".join(gone)
