"""Options of a run that set a field of the method, in the runs whose method has that field.

--record-stops 8      method.record_stops=8    continue past the stop, and record the answer at each
--record-t-p 0.9      method.record_t_p=0.9    for every confidence threshold up to this one

Whether a method has the field is read from its Config, never decided by its name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from harness.config import presets
from harness.config.layers import Choices
from harness.config.resolve import resolve_part
from harness.config.sweep import method_and_parameters
from harness.engine.settled_method import make_method
from harness.errors import UserError

FLAGS = {"record_stops": "--record-stops", "record_t_p": "--record-t-p"}
_STOPS, _T_P = "record_stops", "record_t_p"


def with_stops(
    runs: Sequence[Choices], options: Mapping[str, float | None], note: Callable[[str], None]
) -> list[Choices]:
    """The runs with `options` set as --set would; a sentence to `note` for each that does not apply
    to some methods.

    options: field name -> value, None where it is not given. Of several methods, one without the
    field, or one that refuses it as it is set, is left as it is. Raises UserError where no method
    takes it, for a field given twice, and for a t_p for which nothing is recorded. A run that
    cannot be resolved is left as it is: its mistake is reported when it is planned.
    """
    if not (chosen := {name: value for name, value in options.items() if value is not None}):
        return list(runs)
    for name in chosen:
        if any(f"method.{name}" in run.sets for run in runs):
            raise UserError(
                f"'method.{name}' is given twice: by --set and by {FLAGS[name]}; keep one"
            )
    mixed = len({run.method for run in runs}) > 1
    out: list[Choices] = []
    refused: dict[str, list[str]] = {name: [] for name in chosen}
    for run in runs:
        method_info = method_and_parameters(run)
        if method_info is None:
            out.append(run)
            continue
        method, fields = method_info
        if (
            _T_P in chosen
            and _STOPS not in chosen
            and _STOPS in fields
            and method.params.get(_STOPS) is None
        ):
            raise UserError(
                "--record-t-p sets up to which t_p stops are recorded; add --record-stops N"
            )
        settings = {f"method.{name}": value for name, value in chosen.items() if name in fields}
        changed = replace(run, sets={**run.sets, **settings})
        if mixed and settings and not _is_valid(changed) and _is_valid(run):
            settings, changed = {}, run
        for name in chosen:
            if f"method.{name}" not in settings:
                refused[name].append(method.name)
        out.append(changed)
    left_out = {name: list(dict.fromkeys(methods)) for name, methods in refused.items() if methods}
    for name, methods in left_out.items():
        if not mixed or all(f"method.{name}" not in run.sets for run in out):
            known = [
                preset
                for preset in presets.names("methods")
                if (method_info := method_and_parameters(Choices(method=preset))) is not None
                and name in method_info[1]
            ]
            have = f"these have it: {', '.join(known)}" if known else "no method has it"
            raise UserError(
                f"{FLAGS[name]} does not apply to {', '.join(methods)}, which cannot take "
                f"method.{name}; {have}"
            )
    for name, methods in left_out.items():
        note(f"note: {FLAGS[name]} does not apply to {', '.join(methods)}")
    return out


def _is_valid(run: Choices) -> bool:
    """Whether the run's method takes its settings."""
    try:
        part = resolve_part("methods", run)
        make_method(part.value, part.origins)
    except UserError:
        return False
    return True
