"""A method of the user's is another one when its file changes; one of this project goes by its
index_version."""

import importlib
import sys
from importlib import metadata

import pytest

from harness import scorers
from harness.config import registry
from harness.config.layers import Choices
from harness.engine.indexing import index_key
from harness.engine.plan import plan_choices
from harness.entities.recogniser import recogniser_packages
from harness.errors import UserError
from harness.storage import own_code_hash
from harness.storage.own_code_hash import own_code
from harness.storage.package_versions import package_versions
from harness.types import Document
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.method import QRMeM
from methods.raptor.config import RaptorConfig
from methods.raptor.method import Raptor
from methods.retrieval import BM25

BASE = """\
from harness.errors import UserError
from harness.method import Method
from harness.storage import own_code_hash
class Head(Method):
    scope = "document"
    def index(self, document, tools):
        return {"head": document.text[:SIZE]}
SIZE = 10
"""
OWN = """\
import importlib
import os
from importlib import import_module
from pathlib import Path
from harness.types import Answer
from own_base import Head
from own_package import words
import own_plugin
class Lead(Head):
    def answer(self, question, documents, indexes, tools):
        import own_lazy
        dynamic = importlib.import_module("own_dynamic"), __import__("own_builtin"), import_module("own_bare")
        listed = (Path(__file__).parent / "lists" / "stop.txt").read_text()
        more = open(os.path.join("lists", "more.txt")).read()
        found = sorted((Path(__file__).parent / "lists").glob("*.csv"))
        with open("calls.log", "a") as log:
            log.write("asked")
        return Answer(indexes[0]["head"])
"""
PARSER = """\
from own_dates import year
def row(raw):
    from harness.datasets.rows import Row
    return Row(id=raw["id"], question=raw["q"] + year(), answers=(raw["a"],), paragraphs=(("", "Toren"),))
"""
SCORER = """\
from own_tokens import words
def brevity(prediction, answers):
    return 1 / (1 + len(words(prediction)))
"""
FILES = {
    "methods/lead.yaml": "summary: the head\nimplementation: own_lead:Lead\n",
    "own_base.py": BASE,
    "own_lead.py": OWN,
    "own_package/__init__.py": "from .words import stop\n",
    "own_package/words.py": "from . import deep\nstop = deep.X\n",
    "editable/own_plugin/__init__.py": "from own_plugin.core import X\n",
    "lists/stop.txt": "the\n",
    "lists/more.txt": "a\n",
    "lists/any.csv": "a\n",
    "calls.log": "",
    "own_parser.py": PARSER,
    "own_dates.py": "def year():\n    return ' 1901'\n",
    "own_scorer.py": SCORER,
    "own_tokens.py": "def words(text):\n    return text.split()\n",
}
PLAIN = [
    "own_package/deep",
    "editable/own_plugin/core",
    "own_lazy",
    "own_dynamic",
    "own_builtin",
    "own_bare",
]
FILES |= {f"{name}.py": "X = 1\n" for name in PLAIN}
DOCUMENT = Document("d", "Toren was born in Kelford.")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A user's folder with a method, a parser and a scorer, each with helpers; own_plugin is
    installed editable."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "rows.jsonl").write_text('{"id": "1", "q": "Where?", "a": "Kelford"}\n')
    monkeypatch.setenv("HARNESS_CONFIGS", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(tmp_path / "editable")])
    monkeypatch.chdir(tmp_path)
    registry.trust("own_parser:row", "own_scorer:brevity")
    forget()
    yield tmp_path
    forget()


def forget():
    """What a new process would not know: the user's modules."""
    for name in [name for name in sys.modules if name.startswith("own_")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    own_code_hash._first_hashes.clear()


def plan(**more):
    forget()
    return plan_choices(
        Choices(
            method="lead", **{"dataset": "pocket/musique", "profile": "pocket", "limit": 1} | more
        )
    )


USED = [
    "own_lead.py",
    "own_base.py",
    "own_lazy.py",
    "own_dynamic.py",
    "own_builtin.py",
    "own_bare.py",
]
USED += [
    "own_package/__init__.py",
    "own_package/words.py",
    "own_package/deep.py",
    "editable/own_plugin/core.py",
]
USED += ["lists/stop.txt", "lists/more.txt", "lists/any.csv"]


def test_editing_what_an_own_method_uses_makes_another_run_and_another_index(folder):
    before = plan()
    (folder / "calls.log").write_text("asked")  # what it writes itself makes no other run
    assert plan().hash8 == before.hash8
    hashes, keys = {before.hash8}, {index_key(before, DOCUMENT, None).digest}
    for number, edit in enumerate(USED, start=2):
        (folder / edit).write_text(FILES[edit] + "\n")
        edited = plan()
        hashes.add(edited.hash8)
        keys.add(index_key(edited, DOCUMENT, None).digest)
        assert (len(hashes), len(keys)) == (number, number), edit


def test_a_file_that_a_parameter_names_is_part_of_the_run(folder):
    lead = folder / "own_lead.py"
    lead.write_text(OWN + "    class Config(Head.Config):\n        words: str = 'none'\n")
    hashes = []
    for text in ("the", "a"):
        (folder / "words.txt").write_text(text)
        hashes.append(plan(sets={"method.words": "words.txt"}).hash8)
    assert hashes[0] != hashes[1]


@pytest.mark.parametrize("edit", ["own_parser.py", "own_dates.py"])
def test_another_question_of_an_own_parser_makes_another_run(folder, edit):
    asked = {
        "dataset": "musique",
        "profile": None,
        "data": "rows.jsonl",
        "sets": {"dataset.format": "own_parser:row"},
    }
    before = plan(**asked).hash8
    # Of another size: Python takes its cached bytecode for a file that was changed within the same
    # second.
    (folder / edit).write_text(
        FILES[edit].replace('raw["q"]', 'raw["q"].upper()').replace("1901", "1902 or so")
    )
    assert plan(**asked).hash8 != before


@pytest.mark.parametrize("edit", ["own_scorer.py", "own_tokens.py"])
def test_editing_an_own_scorer_or_its_helper_makes_another_version(folder, edit):
    before = scorers.version("own_scorer:brevity")
    (folder / edit).write_text(FILES[edit] + "\n")
    forget()
    assert scorers.version("own_scorer:brevity") != before


def test_an_edit_after_the_import_is_refused_until_it_is_reloaded(folder):
    """Without a new process the old code would answer, under the hash of the new one."""
    before, same = (
        plan().hash8,
        Choices(method="lead", dataset="pocket/musique", profile="pocket", limit=1),
    )
    (folder / "own_base.py").write_text(BASE.replace("10", "20"))
    for _ in range(2):
        with pytest.raises(
            UserError, match="own_base.py has changed since Python imported 'own_base'; restart"
        ):
            plan_choices(same)
    importlib.reload(sys.modules["own_base"])
    assert plan_choices(same).hash8 != before


CELL = """
import own_tokens
from harness.errors import UserError
from harness.method import Method
from harness.storage import own_code_hash
LIMIT = 3
def cut(text):
    return text[:LIMIT]
class Typed(Method):
    def answer(self, question, *_):
        return cut(own_tokens.words(question.text)[0])
"""


TYPED = {
    "LIMIT = 3": "LIMIT = 4",
    "text[:LIMIT]": "text[LIMIT:]",
    "[0]": "[1]",
    "own_tokens.words(": "str(",
    "": "",
}


@pytest.mark.parametrize(("old", "new"), TYPED.items())
def test_a_typed_class_is_another_one_where_what_it_uses_differs(folder, old, new):
    hashes = []
    for cell in (CELL, CELL.replace(old, new) if old else CELL):
        place = {"__name__": "typed_in"}
        exec(cell, place)
        hashes.append(own_code(place["Typed"]))
    assert "own_tokens" in hashes[0]
    assert (hashes[0] == hashes[1]) == (old == "")


def test_a_method_of_this_project_goes_by_its_version():
    assert (own_code(BM25), own_code(Raptor)) == ({}, {})


def test_versions_of_packages():
    found = package_versions(("numpy", "no-such-package-here"))
    assert found == {"numpy": metadata.version("numpy"), "no-such-package-here": "not installed"}


def test_an_index_made_with_a_library_names_it():
    # A default is not checked, so that this works where UMAP is not installed.
    assert Raptor(RaptorConfig()).index_packages() == ("scikit-learn", "umap-learn")
    assert Raptor(RaptorConfig(reduction="pca")).index_packages() == ("scikit-learn",)
    assert QRMeM(QRMeMConfig()).index_packages() == ()
    named = {
        "rules": (),
        "spacy": ("spacy", "en_core_web_sm"),
        "spacy:xx": ("spacy", "xx"),
        "stanza:de": ("stanza",),
    }
    assert {name: recogniser_packages(name) for name in named} == named
