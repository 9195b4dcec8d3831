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
"""Field of a method -> the option that sets it."""
_RECORD_STOPS = "record_stops"
_RECORD_T_P = "record_t_p"


def with_recorded_stops(
    runs: Sequence[Choices], options: Mapping[str, float | None], note: Callable[[str], None]
) -> list[Choices]:
    """The runs with the options of recorded stops (--record-stops N and --record-t-p) set, as
    `--set method.record_stops=N` would set them.

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
    given_options = {name: value for name, value in options.items() if value is not None}
    if not given_options:
        return list(runs)
    _check_given_once(runs, given_options)
    several_methods = len({run.method for run in runs}) > 1
    changed: list[Choices] = []
    # Field name of an option -> methods without it.
    refused: dict[str, list[str]] = {name: [] for name in given_options}
    for run in runs:
        method_and_fields = method_and_parameters(run)
        if method_and_fields is None:  # it cannot be resolved
            changed.append(run)
            continue
        method, fields = method_and_fields
        _check_stops_are_recorded(given_options, method, fields)
        settings = _settings_for(run, given_options, fields, several_methods)
        for name in given_options:
            if f"method.{name}" not in settings and method.name not in refused[name]:
                refused[name].append(method.name)
        changed.append(replace(run, sets={**run.sets, **settings}))
    _report_refused(refused, changed, note)
    return changed


def _check_given_once(runs: Sequence[Choices], given_options: Mapping[str, float]) -> None:
    """Raise UserError where --set gives an option's field in any run, too.

    Args:
        runs: The runs of the command.
        given_options: Field name -> value of the options that are given.
    """
    for name in given_options:
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
        is_set_in_a_run = any(f"method.{name}" in run.sets for run in runs)
        if methods and not is_set_in_a_run:
            raise _applies_to_none_error(name, methods)
    for name, methods in refused.items():
        if methods:
            note(f"note: {FLAGS[name]} does not apply to {', '.join(methods)}")


def _check_stops_are_recorded(
    given_options: Mapping[str, float], method: MethodChoice, fields: Collection[str]
) -> None:
    """Raise UserError where --record-t-p is given for a method that records stops, but no number of
    stops is set.

    Args:
        given_options: Field name -> value of the options that are given.
        method: The settings of a run's method.
        fields: The names of the method's parameters.
    """
    lacks_option = _RECORD_T_P in given_options and _RECORD_STOPS not in given_options
    lacks_setting = _RECORD_STOPS in fields and method.params.get(_RECORD_STOPS) is None
    if lacks_option and lacks_setting:
        raise UserError(
            "--record-t-p sets up to which t_p stops are recorded; add --record-stops N"
        )


def _settings_for(
    run: Choices, given_options: Mapping[str, float], fields: Collection[str], several_methods: bool
) -> dict[str, float]:
    """The settings that the options make for one run: {"method.record_stops": 8}.

    Args:
        run: The run.
        given_options: Field name -> value of the options that are given.
        fields: The names of its method's parameters.
        several_methods: Whether the command has several methods. One that refuses these settings
            then gets none; where there is only one, its mistake is reported when it is planned.
    """
    settings = {f"method.{name}": value for name, value in given_options.items() if name in fields}
    if not several_methods or not settings:
        return settings
    changed_run = replace(run, sets={**run.sets, **settings})
    refuses_these_settings = not _is_valid(changed_run) and _is_valid(run)
    if refuses_these_settings:
        return {}
    return settings


def _applies_to_none_error(name: str, methods: Iterable[str]) -> UserError:
    """The error for an option that no run of the command can use; it names the methods that could.

    Args:
        name: The field of the option.
        methods: The methods of the runs.
    """
    methods_with_field: list[str] = []
    for preset in presets.names("methods"):
        method_and_fields = method_and_parameters(Choices(method=preset))
        if method_and_fields is None:
            continue
        _, fields = method_and_fields
        if name in fields:
            methods_with_field.append(preset)
    which_have_it = "no method has it"
    if methods_with_field:
        which_have_it = f"these have it: {', '.join(methods_with_field)}"
    return UserError(
        f"{FLAGS[name]} does not apply to {', '.join(methods)}, which cannot take method.{name}; "
        f"{which_have_it}"
    )


def _is_valid(run: Choices) -> bool:
    """Whether the run's method accepts its settings; the data set and models are not looked at."""
    try:
        part = resolve_method(run)
        make_method(part.value, part.origins)
    except UserError:
        return False
    return True
