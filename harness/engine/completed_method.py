"""The method of a run with all of its parameters: defaults filled in, prompts checked, numbers
taken from finished runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.config import registry
from harness.config.own_prompt import SystemPrompt
from harness.config.resolve import DEFAULT_ORIGIN, Settings
from harness.config.run_label import SYSTEM_PROMPT, changes_from_preset
from harness.config.schema import MethodChoice
from harness.config.yaml_tree import Tree, flatten, mapping_at, validate_tree
from harness.engine.numbers_from_runs import NumberFromRun, number_from_run, parameters_naming_runs
from harness.errors import UserError, raise_all
from harness.method import Method, misdeclared
from harness.prompt_replacements import replacement_problem
from harness.prompts import Prompt

_PARAMS = "method.params."


@dataclass(frozen=True)
class CompletedMethod:
    """A method that can run.

    Attributes:
        method: The method.
        choice: Its settings, each parameter with its value.
        origins: Path of a value of the run -> what set it, of the parameters, too.
        numbers_from_runs: Parameter -> the number that a finished run gave.
    """

    method: Method
    choice: MethodChoice
    origins: Mapping[str, str]
    numbers_from_runs: Mapping[str, NumberFromRun]


def complete_method(settings: Settings) -> CompletedMethod:
    """Make the method of a run with a value for each parameter: numbers from finished runs, the
    run's system prompt and the defaults are filled in, and what set each value is noted (origins).

    Raises:
        UserError: A parameter or prompt is wrong; ConfigError for several.
    """
    choice = settings.method
    origins = dict(settings.origins)
    numbers = _numbers_from_runs(choice, origins)
    if numbers:
        values = {name: number.value for name, number in numbers.items()}
        choice = choice.model_copy(update={"params": {**choice.params, **values}})
        for name, number in numbers.items():
            origins[_PARAMS + name] = number.note
    method = make_method(choice, origins)
    system = settings.general.system_prompt
    if system is not None:
        choice = _with_system_prompt(choice, method, system)
        for prompt in _prompts_for_an_answer(method):
            origins[f"{_PARAMS}prompts.{prompt.name}.system"] = f"{SYSTEM_PROMPT}{system.name}"
        method = make_method(choice, origins)  # once more, with that prompt
    params = method.config.model_dump(mode="json")
    choice = choice.model_copy(update={"params": params})
    for path in flatten(params, "method.params"):
        origins.setdefault(path, DEFAULT_ORIGIN)
    return CompletedMethod(method, choice, origins, numbers)


def _prompts_for_an_answer(method: Method) -> list[Prompt]:
    """The prompts by which a method asks for an answer; a run's system prompt stands before
    these."""
    return [prompt for prompt in method.templates() if prompt.answers]


def _with_system_prompt(choice: MethodChoice, method: Method, system: SystemPrompt) -> MethodChoice:
    """A copy of a method's settings in which each prompt that asks for an answer has the run's
    system prompt.

    Args:
        choice: The settings.
        method: The method that was made from them.
        system: The system prompt.

    Raises:
        UserError: The method has no such request, or the settings give it another system prompt.
    """
    answer_prompts = _prompts_for_an_answer(method)
    if not answer_prompts:
        raise UserError(
            f"'{choice.name}' sends no request of its own for an answer, so --system-prompt has no "
            "place in it; leave that out, or the method"
        )
    prompts = mapping_at(choice.params, "prompts")
    for prompt in answer_prompts:
        turns = _replaced_turns(prompts, prompt.name)
        if turns.get("system", system.text) != system.text:
            raise UserError(
                f"the system turn of prompt '{prompt.name}' of '{choice.name}' is given by "
                "--system-prompt and by method.prompts; keep one"
            )
        turns["system"] = system.text
        prompts[prompt.name] = turns
    return choice.model_copy(update={"params": {**choice.params, "prompts": prompts}})


def _replaced_turns(prompts: Mapping[str, object], name: str) -> dict[str, object]:
    """The turns of a prompt that the settings replace: {"user": "Answer ..."}; {} for none. A text
    alone replaces the user turn.

    Args:
        prompts: method.prompts of the settings.
        name: The prompt.
    """
    replaced = prompts.get(name)
    if isinstance(replaced, str):
        return {"user": replaced}
    return mapping_at(prompts, name)


def _numbers_from_runs(
    choice: MethodChoice, origins: Mapping[str, str]
) -> dict[str, NumberFromRun]:
    """Parameter -> the number that it gets, for the parameters whose value names a finished run
    ("from:RUN_FOLDER"). Raises UserError where a run gives no number."""
    method_class = registry.method_class(choice.implementation)
    references = parameters_naming_runs(method_class, choice.params)
    if not references:
        return {}
    method = make_method(choice, origins)
    numbers: dict[str, NumberFromRun] = {}
    for parameter, reference in references.items():
        numbers[parameter] = number_from_run(method, choice.name, parameter, reference)
    return numbers


def make_method(choice: MethodChoice, origins: Mapping[str, str]) -> Method:
    """Import a method and check its parameters; those that still name a run get the placeholder 1.

    Args:
        choice: The method's settings.
        origins: Path of a value in RunConfig -> what set it, for messages.

    Raises:
        UserError: The implementation cannot be imported, or declares what does not fit together.
        ConfigError: Wrong parameters or prompts.
    """
    cls: type[Method] = registry.load(choice.implementation, Method)
    wrong = misdeclared(cls)
    if wrong:
        raise UserError(f"the method '{choice.implementation}' has {wrong} (docs/extending.md)")
    placeholders = dict.fromkeys(parameters_naming_runs(cls, choice.params), 1)
    tree = Tree()
    tree.values = {**choice.params, **placeholders}
    for path, origin in origins.items():
        if path.startswith(_PARAMS):
            tree.origins[path.removeprefix(_PARAMS)] = origin
    method = cls(validate_tree(cls.Config, tree, "method.params"))
    if method.config.prompts:
        _check_prompts(choice.name, method)
    return method


def _check_prompts(preset: str, method: Method) -> None:
    """Check the prompts that the settings replace: each has to be one of the method's, with its
    turns and fields.

    Args:
        preset: The method's name, for messages.
        method: The method with its settings.

    Raises:
        UserError: One of them is wrong; ConfigError for several.
    """
    prompts = {prompt.name: prompt for prompt in method.templates()}
    problems = []
    for name, turns in method.config.prompts.items():
        sentence = replacement_problem(preset, name, turns, prompts)
        if sentence:
            problems.append(UserError(sentence))
    raise_all(problems)


def mark_of_changes(completed: CompletedMethod, dataset: str) -> str:
    """What tables add to the method's name where parameters or prompts are not the preset's,
    "k=7"; "" where all are.

    A number that a run gave does not mark it; tables print it below, with the run.
    """
    changed: dict[str, str] = {}
    for path, origin in completed.origins.items():
        if not path.startswith(_PARAMS):
            continue
        parameter = path.removeprefix(_PARAMS)
        if not _is_of_preset(origin) and parameter not in completed.numbers_from_runs:
            changed[parameter] = origin
    if not changed:
        return ""
    return changes_from_preset(completed.method, completed.choice, dataset, changed)


def _is_of_preset(origin: str) -> bool:
    """Whether a parameter has its default, or is set by a preset's file: one of this project or of
    an installed package ("configs/methods/bm25.yaml"), or one in the folder that the environment
    variable names ("$HARNESS_CONFIGS/methods/mine.yaml")."""
    beginnings_of_files = ("configs/", f"${registry.CONFIGS_VARIABLE}/")
    return origin == DEFAULT_ORIGIN or origin.startswith(beginnings_of_files)
