"""The address of a project of Weights & Biases, "wandb:PROJECT"; wandb_run.py logs to it."""

import importlib.util

from harness.errors import UnknownName

SCHEME = "wandb:"
PROJECT = "longdoc-harness"
"""The project of the address "wandb:"."""
_INSTALL = "W&B is not installed; install it with: pip install 'longdoc-harness[wandb]'"


def address(tracker: str) -> str:
    """The address of the project that --track names: "wandb:qa" -> "wandb:qa", "wandb" -> "wandb:".

    Raises UnknownName for another tracker.
    """
    name, _, project = tracker.partition(":")
    if name != "wandb":
        raise UnknownName("tracker", name, ["wandb"], "MLflow has --mlflow")
    return f"{SCHEME}{project}"


def install_problem() -> list[str]:
    """A list with one sentence where W&B is not installed, else []."""
    if importlib.util.find_spec("wandb") is None:
        return [_INSTALL]
    return []
