"""Back ends by name: the bundled ones and a guest's use one door, and code that nobody chose stays
outside."""

import sys

import pytest

from harness.config import plugins, registry
from harness.config.schema import ModelConfig
from harness.llm.backend import Backend, backend_of, model_facts
from harness.storage.run_folder import read_run
from tests.docs.pages import ROOT, blocks


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The package of docs/extending.md, as pip leaves it: its module and its entry points on the
    path."""
    for block in blocks(ROOT / "docs" / "extending.md"):
        if block.file and block.file.startswith("echo-backend/"):
            path = tmp_path / "site" / block.file.removeprefix("echo-backend/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    declared = (tmp_path / "site/pyproject.toml").read_text().partition("[project.entry-points.")[2]
    info = tmp_path / "site/echo_backend-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-backend\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[" + declared.replace('"', ""))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    plugins.targets.cache_clear()
    registry.targets.cache_clear()
    yield tmp_path
    plugins.targets.cache_clear()
    registry.targets.cache_clear()
    sys.modules.pop("echo_backend", None)


@pytest.mark.parametrize("name", ["hf", "endpoint", "scripted", "random"])
def test_the_bundled_back_ends_use_the_same_door(name):
    found = backend_of(ModelConfig(name="m", backend=name))
    assert isinstance(found, Backend)
    assert registry.targets("backends")[name] == f"{type(found).__module__}:{type(found).__name__}"


def test_the_package_of_the_documents_runs_once_it_is_installed(installed, here):
    words = [
        "run",
        "-m",
        "bm25",
        "-d",
        "pocket/musique",
        "--limit",
        "2",
        "--model",
        "mine",
        "--mlflow",
        "off",
    ]
    here(*words, "--set", "model.backend=echo", "model.window=3000").checked()
    (folder,) = (installed / "results/pocket~musique").iterdir()
    run = read_run(folder)
    assert run.manifest.models == {"reader": {"echo": 1, "window": 3000}}
    assert all(
        record.usage["answer"]["tokens_out"] > 0 and record.error is None for record in run.records
    )


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("ednpoint", "unknown back end 'ednpoint'"),
        ("subprocess:Popen", "code that nobody chose"),
    ],
)
def test_a_name_that_is_none_and_code_that_nobody_chose_are_refused(backend, message):
    (problem,) = model_facts(ModelConfig(name="m", backend=backend)).problems
    assert message in problem


def test_what_is_no_back_end_is_one_sentence(monkeypatch):
    monkeypatch.setattr(registry, "targets", lambda _: {"odd": "json:dumps"})
    (problem,) = model_facts(ModelConfig(name="m", backend="odd")).problems
    assert "'odd' is not a subclass of harness.llm.backend.Backend" in problem
