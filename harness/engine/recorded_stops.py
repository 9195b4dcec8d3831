"""Options of a run that set a field of the method, in the runs whose method has that field.

--record-stops 8      method.record_stops=8    continue past the stop, and record the answer at each
--record-t-p 0.9      method.record_t_p=0.9    for every confidence threshold up to this one

Whether a method has the field is read from its Config, never decided by its name.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from harness.config import presets
from harness.config.layers import Choices
from harness.config.resolve import resolve_method
from harness.config.schema import MethodChoice
from harness.config.sweep import method_and_parameters
from harness.engine.completed_method import make_method
from harness.errors import UserError

FLAGS = {"record_stops": "--record-stops", "record_t_p": "--record-t-p"}
_STOPS, _T_P = "record_stops", "record_t_p"


def with_stops(
    runs: Sequence[Choices], options: Mapping[str, float | None], note: Callable[[str], None]
) -> list[Choices]:
    """The runs with the options set as --set would set them.

    Where the command has several methods, a run stays as it is whose method lacks the field, or
    refuses it as it is set. So does a run that cannot be resolved: its mistake is reported when it
    is planned.

    Args:
        runs: The runs of the command.
        options: Field name -> value, None where the option is not given.
        note: Gets a sentence for each option that does not apply to some methods.

    Raises:
        UserError: No method takes an option, a field is given twice, or nothing is recorded for a
            t_p.
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    if not chosen:
        return list(runs)
    _check_given_once(runs, chosen)
    several_methods = len({run.method for run in runs}) > 1
    changed: list[Choices] = []
    refused: dict[str, list[str]] = {name: [] for name in chosen}  # option -> methods without it
    for run in runs:
        info = method_and_parameters(run)
        if info is None:
            changed.append(run)
            continue
        method, fields = info
        _check_recorded(chosen, method, fields)
        settings = _settings_for(run, chosen, fields, several_methods)
        for name in chosen:
            if f"method.{name}" not in settings and method.name not in refused[name]:
                refused[name].append(method.name)
        changed.append(replace(run, sets={**run.sets, **settings}))
    _report_refused(refused, changed, note)
    return changed


def _check_given_once(runs: Sequence[Choices], chosen: Mapping[str, float]) -> None:
    """Raise UserError where --set gives an option's field in any run, too.

    Args:
        runs: The runs of the command.
        chosen: Field name -> value of the options that are given.
    """
    for name in chosen:
        if any(f"method.{name}" in run.sets for run in runs):
            raise UserError(
                f"'method.{name}' is given twice: by --set and by {FLAGS[name]}; keep one"
            )


def _report_refused(
    refused: Mapping[str, Sequence[str]], runs: Sequence[Choices], note: Callable[[str], None]
) -> None:
    """Say which methods do not take an option.

    Args:
        refused: Field name of an option -> the methods that do not take it.
        runs: The runs with their options set.
        note: Gets a sentence for each option that some methods do not take.

    Raises:
        UserError: No run takes an option.
    """
    for name, methods in refused.items():
        if methods and all(f"method.{name}" not in run.sets for run in runs):
            raise _applies_to_none(name, methods)
    for name, methods in refused.items():
        if methods:
            note(f"note: {FLAGS[name]} does not apply to {', '.join(methods)}")


def _check_recorded(
    chosen: Mapping[str, float], method: MethodChoice, fields: Collection[str]
) -> None:
    """Raise UserError where --record-t-p is given for a method that records stops, but no number of
    stops is set.

    Args:
        chosen: Field name -> value of the options that are given.
        method: The settings of a run's method.
        fields: The names of the method's parameters.
    """
    needs_stops = _T_P in chosen and _STOPS not in chosen
    if needs_stops and _STOPS in fields and method.params.get(_STOPS) is None:
        raise UserError(
            "--record-t-p sets up to which t_p stops are recorded; add --record-stops N"
        )


def _settings_for(
    run: Choices, chosen: Mapping[str, float], fields: Collection[str], mixed: bool
) -> dict[str, float]:
    """The settings that the options make for one run: {"method.record_stops": 8}.

    Args:
        run: The run.
        chosen: Field name -> value of the options that are given.
        fields: The names of its method's parameters.
        mixed: Whether the command has several methods. One that refuses these settings then gets
            none; where there is only one, its mistake is reported when it is planned.
    """
    settings = {f"method.{name}": value for name, value in chosen.items() if name in fields}
    if not mixed or not settings:
        return settings
    changed = replace(run, sets={**run.sets, **settings})
    if not _is_valid(changed) and _is_valid(run):
        return {}
    return settings


def _applies_to_none(name: str, methods: Iterable[str]) -> UserError:
    """The error for an option that no run of the command can use; it names the methods that could.

    Args:
        name: The field of the option.
        methods: The methods of the runs.
    """
    known: list[str] = []
    for preset in presets.names("methods"):
        info = method_and_parameters(Choices(method=preset))
        if info is not None and name in info[1]:
            known.append(preset)
    have = "no method has it"
    if known:
        have = f"these have it: {', '.join(known)}"
    return UserError(
        f"{FLAGS[name]} does not apply to {', '.join(methods)}, which cannot take method.{name}; "
        f"{have}"
    )


def _is_valid(run: Choices) -> bool:
    """Whether the run's method accepts its settings; the data set and models are not looked at."""
    try:
        part = resolve_method(run)
        make_method(part.value, part.origins)
    except UserError:
        return False
    return True
