import pytest

from reports.paper import public_releases

_MODELS = {**public_releases._published_facts(), "datasets": {}}


@pytest.fixture(autouse=True)
def no_official_rows(request, monkeypatch):
    """Runs made by hand have rows of no official split; tests/reports/test_paper_public_releases.py compares them."""
    if request.module.__name__.rpartition(".")[2] not in ("test_paper_public_releases", "test_fabricated_runs"):
        monkeypatch.setattr(public_releases, "_published_facts", lambda: _MODELS)
