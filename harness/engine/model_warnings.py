"""Warnings about the models that come with the project: before a run, below a table, and in a
comparison with papers.

pocket-llama    trained on the synthetic world: made for pocket/*, plumbing on any other data set
random          of older runs: its answers are noise, on any data set
smollm2-135m    a small model of language: it compares methods, its numbers are far below a large model's
"""

from collections.abc import Iterable

from harness.config import registry
from harness.config.schema import ModelConfig
from harness.llm.model_info import find_or_download
from harness.method import Method
from harness.storage.stored_config import StoredDataset, StoredModel

_SYNTHETIC_WORLD = "pocket"  # the format of data sets that are drawn from the synthetic world


def embedded_notice(model: ModelConfig) -> str:
    """The line printed before a run with an embedded model."""
    return f"{model.name} answers, which is trained on pocket/* only; name another with --model"


def embedded_caveat(model: StoredModel, dataset: StoredDataset) -> str:
    """The sentence that says what an embedded model's numbers on a data set are worth.

    Args:
        model: The model of a stored run; "random" is one of older runs.
        dataset: The data set of that run.
    """
    name = model.name
    if model.backend == "random":
        return f"{name} is a random model: its answers are noise"
    if is_made_for(dataset):
        return f"{name} is the embedded model, made for the synthetic world (pocket/*)"
    return (
        f"{name} is trained on pocket/* only and is no model for questions about {dataset.name}: "
        "its scores show that a method runs, and nothing of its quality"
    )


def is_made_for(dataset: StoredDataset) -> bool:
    """Whether an embedded model was trained for questions such as those of a data set."""
    return dataset.format == _SYNTHETIC_WORLD


def small_model_note(model: str, before_run: bool = False) -> str:
    """The sentence that says what the numbers of a model that is marked as small are worth.

    Args:
        model: Its name.
        before_run: Whether the line is printed before a run.
    """
    if before_run:
        return f"{model} answers, a small model; name another with --model"
    return f"{model} is a small model: its numbers compare methods with each other, not with published ones"


def untrained_warnings(models: Iterable[ModelConfig], method: Method, preset: str) -> list[str]:
    """A warning for each embedded model that was not trained on what the method asks of it now: the
    package that brings the model compares it with the card in the model's folder. Downloads a model
    that is not here.

    Args:
        models: The models of the run.
        method: The method that uses them.
        preset: The method's name.
    """
    warnings: list[str] = []
    embedded = {model.name: model for model in models if model.embedded and model.package}
    for model in embedded.values():
        hooks = registry.model_hooks(model.package or "")
        if hooks is None:
            continue
        folder = find_or_download(model).folder
        changed_skills = hooks.stale_skills(folder, method)
        if changed_skills:
            warnings.append(
                f"{model.name} was not trained on what '{preset}' asks of it now "
                f"({'; '.join(changed_skills)}), so it may do worse than its card says  (harness pocket check)"
            )
    return warnings
