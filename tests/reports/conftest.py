import pytest

from reports.paper import published

_MODELS = {**published._published_facts(), "datasets": {}}


@pytest.fixture(autouse=True)
def no_official_rows(request, monkeypatch):
    """Runs made by hand have rows of no official split; tests/reports/test_paper_published.py compares them."""
    if request.module.__name__.rpartition(".")[2] not in ("test_paper_published", "test_fabricated_runs"):
        monkeypatch.setattr(published, "_published_facts", lambda: _MODELS)
