"""The pocket model's own tokenizer and its teacher, built once a session."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.training.teacher import Teacher
from pocket.tasks.recall import DrillTokens
from pocket.train import tokenizer
from tests.pocket import tiny_model


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.build(folder, 0)
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that says nothing sensible. Not to be written to."""
    return tiny_model.make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def model(tiny: Path, tmp_path: Path) -> Path:
    """The folder `model` of the test's own, with the same model."""
    return shutil.copytree(tiny, tmp_path / "model")


@pytest.fixture(scope="session")
def own(tokenizer_folder: Path) -> Any:
    """The tokenizer as it is loaded from disk."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(tokenizer_folder))


@pytest.fixture(scope="session")
def teacher(own: Any) -> Teacher:
    return Teacher(own)


@pytest.fixture(scope="session")
def drills(teacher: Teacher) -> DrillTokens:
    return DrillTokens(teacher)


@pytest.fixture(scope="session")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.pocket import trainings

    path = tmp_path_factory.mktemp("course") / "course.yaml"
    path.write_text(trainings.COURSE)
    return path


@pytest.fixture(scope="session")
def undisturbed(
    tokenizer_folder: Path, course: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[str]]:
    """A training of 200 steps, and what it said. Not to be written to."""
    from tests.pocket import trainings

    out, said = trainings.begun(tokenizer_folder, tmp_path_factory.mktemp("undisturbed")), list[str]()
    trainings.train(trainings.settings(out, course, steps=200), said.append)
    return out, said
