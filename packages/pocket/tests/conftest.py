"""The pocket model's own tokenizer and its teacher, built once a session."""

import shutil

import pytest
from harness_training.teacher import Teacher
from pocket.tasks.recall import DrillTokens
from pocket.train import tokenizer


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.build(folder, 0)
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """The folder of a model that says nothing sensible. Not to be written to."""
    from packages.pocket.tests import trainings

    return trainings.make_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def model(tiny, tmp_path):
    """The folder `model` of the test's own, with the same model."""
    return shutil.copytree(tiny, tmp_path / "model")


@pytest.fixture(scope="session")
def own(tokenizer_folder):
    """The tokenizer as it is loaded from disk."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(tokenizer_folder))


@pytest.fixture(scope="session")
def teacher(own):
    return Teacher(own)


@pytest.fixture(scope="session")
def drills(teacher):
    return DrillTokens(teacher)


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    from packages.pocket.tests import trainings

    path = tmp_path_factory.mktemp("course") / "course.yaml"
    path.write_text(trainings.COURSE)
    return path


@pytest.fixture(scope="session")
def undisturbed(tokenizer_folder, course, tmp_path_factory):
    """A training of 100 steps, and what it said. Not to be written to."""
    from packages.pocket.tests import trainings

    out, said = (
        trainings.begun(tokenizer_folder, tmp_path_factory.mktemp("undisturbed")),
        list[str](),
    )
    trainings.train(trainings.settings(out, course, steps=100), said.append)
    return out, said
