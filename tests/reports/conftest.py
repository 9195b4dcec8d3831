import pytest

from harness.engine.manifest import ProgramVersions
from harness.storage.manifest_file import GitState
from reports import checks
from reports.figures import front
from reports.paper import comparable, public_releases
from reports.paper.published import published

_WITHOUT_SPLITS = published().model_copy(update={"splits": {}})


@pytest.fixture(autouse=True)
def no_official_rows(request, monkeypatch):
    """Runs made by hand have rows of no official split; tests/reports/test_paper_public_releases.py
    compares them."""
    if request.module.__name__.rpartition(".")[2] not in (
        "test_paper_public_releases",
        "test_fabricated_runs",
    ):
        monkeypatch.setattr(public_releases, "published", lambda: _WITHOUT_SPLITS)


@pytest.fixture
def drawn():
    """Let the test draw score against cost as users see it."""


@pytest.fixture(autouse=True)
def empty_drawing(request, monkeypatch):
    """No drawings of score against cost, whose three files take a second of each page; `drawn` asks
    for them."""
    if "drawn" not in request.fixturenames:
        monkeypatch.setattr(
            front, "draw", lambda *_, **__: b'<svg viewBox="0 0 1 1"><g id="figure_1"></g></svg>'
        )


@pytest.fixture(autouse=True)
def made_here(monkeypatch):
    """The checkout and packages of build.write_run are those of this process."""
    here = ProgramVersions(GitState(commit="c0ffee", dirty=False), {"longdoc-harness": "0.1.0"})
    monkeypatch.setattr(comparable, "program_versions", lambda: here)


@pytest.fixture(autouse=True)
def records_fit(request, monkeypatch):
    """Runs of paper_runs.py have settings and scores alone, whose records fit no method;
    tests/reports/test_edited_folders.py has whole ones."""
    if request.module.__name__.rpartition(".")[2].startswith("test_paper"):
        monkeypatch.setattr(checks.Checks, "inconsistencies", lambda self, run: [])
