"""`harness show NAME`: every value of a configuration with its origin; a method's prompts; what a
data set needs."""

from __future__ import annotations

import inspect
import json as json_
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel

from harness import scorers
from harness.api.run_request import RunRequest, Selection
from harness.cli.command import choice, output
from harness.cli.list import KINDS, find_kind, summaries
from harness.cli.options import Json
from harness.cli.table_output import aligned_columns
from harness.config import presets, registry
from harness.config.layers import Choices
from harness.config.resolve import (
    ResolvedPart,
    Settings,
    resolve,
    resolve_dataset,
    resolve_encoder,
    resolve_method,
    resolve_model,
)
from harness.config.schema import (
    SAMPLING,
    DatasetConfig,
    EncoderConfig,
    MethodChoice,
    ModelConfig,
)
from harness.config.yaml_tree import Tree, as_typed, flatten, mapping_at
from harness.datasets.formats import help_on_documents, option_fields
from harness.engine.completed_method import make_method
from harness.engine.numbers_from_runs import parameters_naming_runs
from harness.engine.plan import mistakes_in_parts
from harness.errors import UnknownName, UserError
from harness.method import MethodConfig
from harness.method.settings import help_of

_PROMPT_SETTING_PREFIX = "method.params.prompts."


@dataclass(frozen=True)
class OptionHelp:
    """How `harness show` describes an option of a data set's format.

    Attributes:
        type: Its type in words: "whole number".
        default: Its default; None where it must be given.
        meaning: What it does.
    """

    type: str
    default: object
    meaning: str


@dataclass(frozen=True)
class DatasetNotes:
    """What one needs to know of a data set.

    Attributes:
        download: What to download, a sentence each.
        options: The options of its format, by name.
        documents: Lines on the files of retrieved documents that it takes.
    """

    download: list[str]
    options: dict[str, OptionHelp]
    documents: list[str]


@dataclass(frozen=True)
class ShownConfig:
    """A configuration ready to print.

    Attributes:
        values: Flat key ("method.params.k") -> JSON value.
        origins: Flat key -> what set it; "prompt NAME" -> what replaced that prompt.
        prompts: Name -> text.
        notes: On a data set.
        parameters: For a method, name of a setting -> help.
    """

    values: Mapping[str, object]
    origins: Mapping[str, str]
    prompts: dict[str, str] = field(default_factory=dict)
    notes: DatasetNotes | None = None
    parameters: dict[str, str] = field(default_factory=dict)


def show(
    selection: Selection,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="A method, data set, model, encoder, scorer, suite or profile."
        ),
    ] = None,
    kind: Annotated[
        str | None, choice("--kind KIND", "Kind of NAME, where several have it.")
    ] = None,
    diff: Annotated[
        str | None, output("--diff OTHER", "Print only the keys that differ from OTHER.")
    ] = None,
    json: Json = False,
) -> int:
    """Show a configuration: each value with its origin, and a method's prompts.

    With --dataset, shows the whole configuration of a run of the method on that data set.
    """
    chosen_kind = None
    if kind:
        chosen_kind = find_kind(kind)
    if name is None:
        if not selection.method:
            raise UserError("name what to show: harness show NAME  (harness list)")
        name = selection.method[0]
        chosen_kind = chosen_kind or "methods"
    kind_of_name = chosen_kind or kind_of(name)
    shown = _describe_name(selection, kind_of_name, name)
    if diff is not None:
        other = _describe_name(selection, kind_of_name, diff)
        difference = _difference(shown, other)
        if json:
            pairs = difference.values_by_key(shown, other)
            print(json_.dumps(pairs, indent=2, ensure_ascii=False))
        else:
            print(_difference_text(difference, (shown, other), (name, diff)))
    elif json:
        print(json_.dumps(_as_json(shown), indent=2))
    else:
        _print_text(shown)
    return 0


def _as_json(shown: ShownConfig) -> dict[str, object]:
    """The JSON object that --json prints of a configuration: values, origins and prompts by name,
    and what is known of its options and settings.
    """
    parts: dict[str, object] = {
        "values": shown.values,
        "origins": shown.origins,
        "prompts": shown.prompts,
    }
    if shown.notes is not None:
        parts |= asdict(shown.notes)
    if shown.parameters:
        parts["parameters"] = shown.parameters
    return parts


def _print_text(shown: ShownConfig) -> None:
    """Print a configuration: each value with its origin, then prompts, notes on a data set, and
    what settings mean.
    """
    rows = []
    for key, value in shown.values.items():
        rows.append((as_typed(key), _value_text(value), shown.origins.get(key, "")))
    print(aligned_columns(rows))
    for name, text in shown.prompts.items():
        _print_prompt(name, text, shown.origins.get(f"prompt {name}"))
    if shown.notes is not None:
        _print_indented("download", shown.notes.download)
        _print_options(shown.notes.options)
        _print_indented("retrieved documents", shown.notes.documents)
    if shown.parameters:
        print("\nsettings, as --set method.NAME=VALUE")
    for name, text in shown.parameters.items():
        print(f"  {name}\n" + textwrap.indent(textwrap.fill(text, 90), "      "))


def _print_prompt(name: str, text: str, origin: str | None) -> None:
    """Print a prompt below its name.

    Args:
        name: The prompt's name.
        text: Its text.
        origin: What replaced the method's own prompt; None for the method's own.
    """
    title = f"prompt {name}"
    if origin:
        title += f"  ({origin})"
    print(f"\n{title}")
    print("\n".join(f"  | {line}" for line in text.splitlines()))


def _print_indented(title: str, lines: Sequence[str]) -> None:
    """Print lines below their title, each indented; nothing where there are none."""
    if lines:
        print(f"\n{title}")
        print("\n".join(f"  {line}" for line in lines))


def _print_options(options: Mapping[str, OptionHelp]) -> None:
    """Print the options of a data set's format as a table; nothing where it has none."""
    if not options:
        return
    rows = [("  name", "type", "default", "meaning")]
    for name, option in options.items():
        default = _value_text(option.default)
        rows.append((f"  dataset.{name}", option.type, default, option.meaning))
    print("\noptions, as --set dataset.NAME=VALUE")
    print(aligned_columns(rows))


def kind_of(name: str) -> str:
    """The kind of preset that a name belongs to: "bm25" -> "methods".

    A name like "module:function" is a scorer. Raises UserError where no kind or several have it.
    """
    if ":" in name:
        return "scorers"  # a function of the user's own
    name_to_compare = presets.comparable_name(name)
    all_names: set[str] = set()
    kinds = []
    for kind in KINDS:
        names = _names_of(kind)
        all_names.update(names)
        if name_to_compare in map(presets.comparable_name, names):
            kinds.append(kind)
    if len(kinds) > 1:
        raise UserError(f"'{name}' is a name in {' and '.join(kinds)}; add --kind {kinds[0]}")
    if kinds:
        return kinds[0]
    if Path(name, "run.yaml").is_file():
        raise UserError(
            f"'{name}' is a run: its settings are in run.yaml there, its scores: harness "
            f"report {name}"
        )
    raise UnknownName("name", name, all_names, "harness list")


def _names_of(kind: str) -> list[str]:
    """All names of a kind ("methods", "scorers", ...), as `harness list` shows them."""
    if kind == "scorers":
        return list(summaries(kind))
    return presets.names(kind)


def resolve_named(
    kind: str, name: str, selection: Selection | None = None
) -> ResolvedPart[MethodChoice | DatasetConfig | ModelConfig | EncoderConfig]:
    """Resolve one method, data set, model or encoder with the origins of its settings.

    Args:
        kind: "methods", "datasets", "models" or "encoders".
        name: Its name.
        selection: Further settings that the user chose, such as --set; None for none.

    Raises:
        UserError: It cannot be resolved.
    """
    choices = Choices()
    if selection is not None:
        choices = RunRequest.from_groups(selection).choices()
    if kind == "methods":
        return resolve_method(replace(choices, method=name))
    if kind == "datasets":
        return resolve_dataset(replace(choices, dataset=name))
    if kind == "models":
        return resolve_model(replace(choices, model=name))
    # Choices has no field for an encoder: it is chosen as by --set encoder=NAME.
    return resolve_encoder(replace(choices, sets={**choices.sets, "encoder": name}))


def _describe_name(selection: Selection, kind: str, name: str) -> ShownConfig:
    """Describe what a name stands for; for a method with --dataset, the settings of a whole run.

    Args:
        selection: What the user chose beside the name.
        kind: The kind of the name.
        name: A method, data set, model, encoder, scorer, suite or profile.
    """
    if kind == "scorers":
        return _describe_scorer(name)
    if kind in ("suites", "profiles"):
        tree = Tree(presets.read(kind, name))
        values: dict[str, object] = {}
        if tree.values:
            values = flatten(tree.values)
        return ShownConfig(values, tree.origins)
    if kind == "methods" and selection.dataset:
        return _describe_run(selection, name)
    part = resolve_named(kind, name, selection)
    shown = _shown_config({kind.removesuffix("s"): part.value}, part.origins)
    if kind == "methods":
        return _with_values_by_dataset(shown, name)
    if isinstance(part.value, DatasetConfig):
        return replace(shown, notes=_dataset_notes(name, part.value))
    return shown


def _describe_scorer(name: str) -> ShownConfig:
    """Describe a scorer, or the user's own function "module:name", which is imported: its name,
    what it measures, and its version.
    """
    scorer_name = name
    for known_name in scorers.names():
        if presets.comparable_name(known_name) == presets.comparable_name(name):
            scorer_name = known_name
            break
    summary = ""
    if ":" in scorer_name:
        registry.trust(scorer_name)  # the user named it
        docstring = inspect.getdoc(registry.load(scorer_name)) or ""
        summary = docstring.partition("\n")[0]
    if not summary:
        summary = scorers.lookup(scorer_name).summary
    values = {"name": scorer_name, "summary": summary, "version": scorers.version(scorer_name)}
    return ShownConfig(values, dict.fromkeys(values, "harness.scorers"))


def _describe_run(selection: Selection, method: str) -> ShownConfig:
    """Describe all settings of a run of the method on the data set that is selected."""
    if len(selection.dataset) > 1:
        raise UserError("show one data set at a time")
    choices = RunRequest.from_groups(selection).choices(method, selection.dataset[0])
    settings = resolve(choices, mistakes_in_parts)
    return _shown_config(_parts_of(settings), settings.origins)


def _with_values_by_dataset(shown: ShownConfig, method: str) -> ShownConfig:
    """Add to a method's description what its preset sets for single data sets.

    The key of such a value is "method.params.k on musique".
    """
    values = dict(shown.values)
    origins = dict(shown.origins)
    for origin, layer in presets.read("methods", method):
        for dataset, params in mapping_at(layer, "by_dataset").items():
            for key, value in flatten(params, "method.params").items():
                values[f"{key} on {dataset}"] = value
                origins[f"{key} on {dataset}"] = origin
    return replace(shown, values=values, origins=origins)


def _dataset_notes(name: str, config: DatasetConfig) -> DatasetNotes:
    """Describe what one needs to know of a data set: what to download,
    its options, retrieved documents.
    """
    options = {}
    for option_name, option in option_fields(config.format).items():
        default = None
        if not option.is_required():
            default = option.get_default()
        options[option_name] = OptionHelp(
            type=_type_in_words(option.annotation),
            default=default,
            meaning=option.description or "",
        )
    return DatasetNotes(
        download=presets.download_notes(name),
        options=options,
        documents=help_on_documents(config.format).splitlines(),
    )


def _type_in_words(annotation: object) -> str:
    """Name an option's type for people.

    int -> "whole number", str | list[str] -> "text or list", Literal["a", "b"] -> "a or b"
    """
    type_arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        return " or ".join(map(str, type_arguments))
    if get_origin(annotation) is Annotated:
        return _type_in_words(type_arguments[0])
    if get_origin(annotation) in (Union, UnionType):
        member_types = [member for member in type_arguments if member is not type(None)]
        return " or ".join(dict.fromkeys(map(_type_in_words, member_types)))
    if annotation is bool:
        return "true or false"
    if annotation is int:
        return "whole number"
    if annotation is float:
        return "number"
    if annotation is str:
        return "text"
    return "list"


def _parts_of(settings: Settings) -> dict[str, object]:
    """The parts of a run's settings by their path: {"method": ...,
    "roles.summariser": ..., "seed": ...}.

    Parts that the run does not have are left out.
    """
    parts: dict[str, object] = {
        "method": settings.method,
        "dataset": settings.dataset,
        "model": settings.model,
        "encoder": settings.encoder,
        "reranker": settings.reranker,
    }
    for role, model in settings.roles.items():
        parts[f"roles.{role}"] = model
    parts_of_run = {path: part for path, part in parts.items() if part is not None}
    return parts_of_run | dict(settings.general)


def _shown_config(parts: Mapping[str, object], part_origins: Mapping[str, str]) -> ShownConfig:
    """Flatten parts of a configuration to values with origins.

    Of a method it also lists the prompts, and what its settings mean.

    Args:
        parts: Path in RunConfig ("method") -> that part of the settings.
        part_origins: Path of a setting ("method.params.k") -> what set it.
    """
    values: dict[str, object] = {}
    prompts: dict[str, str] = {}
    parameters: dict[str, str] = {}
    for path, part in parts.items():
        if isinstance(part, MethodChoice):
            method = make_method(part, part_origins)
            prompts = method.prompts()
            parameters = _setting_texts(type(method.config))
            params = method.config.model_dump(mode="json", exclude={"prompts"})
            # A parameter whose number another run gives is shown as typed: "from:results/...".
            params |= parameters_naming_runs(type(method), part.params)
            part = part.model_copy(update={"params": params})
        values.update(flatten(_as_json_values(part), path))
    origins = {key: part_origins.get(key, "default") for key in values}
    for key, origin in part_origins.items():
        if key.startswith(_PROMPT_SETTING_PREFIX):
            origins[_shown_prompt_name(key)] = origin
    return ShownConfig(values, origins, prompts, parameters=parameters)


def _as_json_values(part: object) -> object:
    """A part of the configuration as JSON values: a method without its mark in tables, a model also
    with the defaults of its sampling settings, which pydantic leaves out.
    """
    if not isinstance(part, BaseModel):
        return part
    values = part.model_dump(mode="json", exclude={"mark"})
    if isinstance(part, ModelConfig):
        values |= {name: getattr(part, name) for name in SAMPLING}
    return values


def _shown_prompt_name(key: str) -> str:
    """The name under which the origin of a replaced prompt is shown.

    "method.params.prompts.answer.user"   -> "prompt answer"
    "method.params.prompts.answer.system" -> "prompt answer, system"
    """
    name, _, turn = key.removeprefix(_PROMPT_SETTING_PREFIX).rpartition(".")
    if turn == "user":
        return f"prompt {name}"
    return f"prompt {name}, system"


def _setting_texts(config: type[MethodConfig]) -> dict[str, str]:
    """The help text of each setting of a method, by name; settings without one are left out."""
    texts = {}
    for name, declared in config.model_fields.items():
        text = help_of(declared)
        if text:
            texts[name] = text
    return texts


@dataclass(frozen=True)
class _Difference:
    """In what two configurations differ.

    Attributes:
        keys: Keys of settings.
        prompts: Names of prompts.
    """

    keys: list[str]
    prompts: list[str]

    def values_by_key(self, first: ShownConfig, second: ShownConfig) -> dict[str, object]:
        """Both values of each difference: {"method.params.k": [5, 8],
        "prompt answer": ["...", "..."]}.

        None stands for what a configuration lacks.
        """
        values_by_key: dict[str, object] = {}
        for key in self.keys:
            values_by_key[key] = [first.values.get(key), second.values.get(key)]
        for name in self.prompts:
            values_by_key[f"prompt {name}"] = [first.prompts.get(name), second.prompts.get(name)]
        return values_by_key


def _difference(first: ShownConfig, second: ShownConfig) -> _Difference:
    """Compare two configurations: the settings and prompts that differ, or that only one has.

    Names of presets are left out.
    """
    keys = _differing_keys(first.values, second.values)
    settings = [key for key in keys if not key.endswith(".name")]
    return _Difference(settings, _differing_keys(first.prompts, second.prompts))


def _differing_keys(first: Mapping[str, object], second: Mapping[str, object]) -> list[str]:
    """The keys whose values differ, or that only one of the two has."""
    lacking = object()  # no value equals it
    all_keys = dict.fromkeys([*first, *second])
    return [key for key in all_keys if first.get(key, lacking) != second.get(key, lacking)]


def _difference_text(
    difference: _Difference, configs: Sequence[ShownConfig], names: tuple[str, str]
) -> str:
    """Write a difference as a table with a column for each of the two configurations.

    Args:
        difference: The keys and prompts to show.
        configs: The two configurations.
        names: Their names, the heads of the columns.
    """
    rows = []
    for key in difference.keys:
        cells = [_value_cell(config, key) for config in configs]
        rows.append((as_typed(key), *cells))
    for name in difference.prompts:
        cells = [_prompt_cell(config, name) for config in configs]
        rows.append((f"prompt {name}", *cells))
    if not rows:
        return f"{names[0]} and {names[1]} do not differ"
    return aligned_columns([("", *names), *rows])


def _value_cell(config: ShownConfig, key: str) -> str:
    """The value of a setting as text; "-" where the configuration lacks it."""
    if key not in config.values:
        return "-"
    return _value_text(config.values[key])


def _prompt_cell(config: ShownConfig, name: str) -> str:
    """What the table of differences says of a prompt: "differs", as its text is too long for a
    cell; "-" where the configuration lacks it.
    """
    if name not in config.prompts:
        return "-"
    return "differs"


def _value_text(value: object) -> str:
    """Write a value of a setting: a text as it is, an empty text and all else as JSON."""
    if isinstance(value, str) and value:
        return value
    return json_.dumps(value, ensure_ascii=False)
