"""A method of the user's is another one when its file changes; one of this project goes by its index_version."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from harness.config import registry
from harness.config.layers import Choices
from harness.engine.indexing import index_key
from harness.engine.plan import Plan, plan_choices
from harness.entities.recogniser import packages
from harness.method import Method
from harness.storage.code_version import own_code, versions
from harness.storage.index_cache import key_digest
from harness.types import Document
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.method import QRMeM
from methods.raptor.config import RaptorConfig
from methods.raptor.method import Raptor
from methods.retrieval import BM25

BASE = """\
from harness.method import Method
class Head(Method):
    scope = "document"
    def index(self, document, tools):
        return {"head": document.text[:SIZE]}
SIZE = 10
"""
OWN = """\
from harness.types import Answer
from own_base import Head
class Lead(Head):
    def answer(self, question, documents, indexes, tools):
        return Answer(indexes[0]["head"])
"""
DOCUMENT = Document("d", "Toren was born in Kelford.")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with a method, whose base class is in a module of its own."""
    (tmp_path / "methods").mkdir()
    (tmp_path / "methods" / "lead.yaml").write_text("summary: the head\nimplementation: own_lead:Lead\n")
    (tmp_path / "own_base.py").write_text(BASE)
    (tmp_path / "own_lead.py").write_text(OWN)
    monkeypatch.setenv("HARNESS_CONFIGS", str(tmp_path))
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("own_base", "own_lead"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def plan() -> Plan:
    return plan_choices(Choices(method="lead", dataset="pocket/musique", profile="pocket", limit=1))


EDITS: dict[str, Callable[[Path], Any]] = {
    "the method's own file": lambda f: (f / "own_lead.py").write_text(OWN + "# another answer\n"),
    "the file of its base": lambda f: (f / "own_base.py").write_text(BASE.replace("10", "20")),
}


@pytest.mark.parametrize("edit", EDITS)
def test_editing_an_own_method_makes_another_run_and_another_index(folder: Path, edit: str) -> None:
    before = plan()
    assert plan().hash8 == before.hash8
    key = key_digest(index_key(before, DOCUMENT, None))
    EDITS[edit](folder)
    assert plan().hash8 != before.hash8
    assert key_digest(index_key(plan(), DOCUMENT, None)) != key


def test_a_method_of_this_project_goes_by_its_version() -> None:
    assert own_code(BM25) == {}
    assert own_code(Raptor) == {}


def test_what_is_hashed_is_the_own_part_of_a_class(folder: Path) -> None:
    lead = registry.load("own_lead:Lead", Method)
    assert own_code(lead).keys() == {"own_base", "own_lead"}
    typed = type("Typed", (BM25,), {"__module__": "__nowhere__"})
    assert own_code(typed).keys() == {"__nowhere__"}  # of its functions: tests/test_api.py


def test_versions_of_packages() -> None:
    found = versions(("numpy", "no-such-package-here"))
    assert found == {"numpy": metadata.version("numpy"), "no-such-package-here": "not installed"}


def test_an_index_made_with_a_library_names_it() -> None:
    # A default is not checked, so that this works where UMAP is not installed.
    assert Raptor(RaptorConfig()).index_packages() == ("scikit-learn", "umap-learn")
    assert Raptor(RaptorConfig(reduction="pca")).index_packages() == ("scikit-learn",)
    assert QRMeM(QRMeMConfig()).index_packages() == ()
    named = {"rules": (), "spacy": ("spacy", "en_core_web_sm"), "spacy:xx": ("spacy", "xx"), "stanza:de": ("stanza",)}
    assert {name: packages(name) for name in named} == named
