"""`harness show NAME`: every value of a configuration with its origin; a method's prompts; what a
data set needs."""

from __future__ import annotations

import inspect
import json as json_
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

from harness.api.run_request import RunRequest, Selection
from harness.cli.command import choice, output
from harness.cli.list import KINDS, find_kind, summaries
from harness.cli.options import Json
from harness.cli.table_output import columns
from harness.config import presets, registry
from harness.config.schema import SAMPLING, DatasetConfig, ModelConfig
from harness.config.yaml_tree import Tree, as_typed, flatten
from harness.errors import UnknownName, UserError
from harness.method.settings import help_of

if TYPE_CHECKING:
    from harness.config.resolve import ResolvedPart, Settings
    from harness.method import MethodConfig

_REPLACED = "method.params.prompts."
_PARTS = {"methods": "method", "datasets": "dataset", "models": "model", "encoders": "encoder"}


@dataclass(frozen=True)
class ShownConfig:
    """A configuration ready to print. values, origins: by flat key, "method.params.k"; prompts:
    name -> text.

    origins also has "prompt NAME" for each prompt that is replaced.
    """

    values: dict[str, Any]
    origins: dict[str, str]
    prompts: dict[str, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)  # of a data set: heading -> lines or rows
    parameters: dict[str, str] = field(default_factory=dict)  # of a method: name -> help


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
    kind = find_kind(kind) if kind else None
    if name is None:
        name = next(iter(selection.method), None)
        kind = kind or "methods"
        if name is None:
            raise UserError("name what to show: harness show NAME  (harness list)")
    kind = kind or kind_of(name)
    this = _describe(selection, kind, name)
    if diff is not None:
        _print_difference(this, _describe(selection, kind, diff), (name, diff), json)
    elif json:
        parts = {
            "values": this.values,
            "origins": this.origins,
            "prompts": this.prompts,
            **this.notes,
        }
        parts |= {"parameters": this.parameters} if this.parameters else {}
        print(json_.dumps(parts, indent=2))
    else:
        print(
            columns(
                [
                    (as_typed(k), _value_text(v), this.origins.get(k, ""))
                    for k, v in this.values.items()
                ]
            )
        )
        for prompt, text in this.prompts.items():
            origin = this.origins.get(f"prompt {prompt}")
            head = f"prompt {prompt}  ({origin})" if origin else f"prompt {prompt}"
            print(f"\n{head}\n" + "\n".join("  | " + line for line in text.splitlines()))
        if lines := this.notes.get("download"):
            print("\ndownload\n" + "\n".join(f"  {line}" for line in lines))
        if options := this.notes.get("options"):
            rows = [
                (f"  dataset.{k}", o["type"], _value_text(o["default"]), o["meaning"])
                for k, o in options.items()
            ]
            print(
                "\noptions, as --set dataset.NAME=VALUE\n"
                + columns([("  name", "type", "default", "meaning"), *rows])
            )
        if lines := this.notes.get("documents"):
            print("\nretrieved documents\n" + "\n".join(f"  {line}" for line in lines))
        if this.parameters:
            print("\nsettings, as --set method.NAME=VALUE")
            for name, text in this.parameters.items():
                print(f"  {name}\n" + textwrap.indent(textwrap.fill(text, 90), "      "))
    return 0


def kind_of(name: str) -> str:
    """The kind of presets that `name` is a name of. Raises UserError when none or several have
    it."""
    if ":" in name:
        return "scorers"  # a function of the user's own
    names_by_kind = {
        kind: list(summaries(kind)) if kind == "scorers" else presets.names(kind) for kind in KINDS
    }
    kinds = [
        kind
        for kind, names in names_by_kind.items()
        if presets.fold(name) in map(presets.fold, names)
    ]
    if len(kinds) > 1:
        raise UserError(f"'{name}' is a name in {' and '.join(kinds)}; add --kind {kinds[0]}")
    if not kinds:
        if Path(name, "run.yaml").is_file():
            raise UserError(
                f"'{name}' is a run: its settings are in run.yaml there, its scores: harness "
                f"report {name}"
            )
        raise UnknownName(
            "name", name, {n for names in names_by_kind.values() for n in names}, "harness list"
        )
    return kinds[0]


def resolve_named(kind: str, name: str, selection: Selection | None = None) -> ResolvedPart:
    """Resolve the method, data set, model or encoder (`kind`) `name`, with the layers that
    `selection` adds. Raises UserError."""
    from harness.config.layers import Choices
    from harness.config.resolve import resolve_part

    chosen = RunRequest.of(selection).choices() if selection else Choices()
    part = _PARTS[kind]
    # Choices has no field for an encoder: it is chosen as by --set encoder=NAME.
    choice: dict[str, Any] = (
        {"sets": {**chosen.sets, part: name}} if part == "encoder" else {part: name}
    )
    return resolve_part(kind, replace(chosen, **choice))


def _describe(selection: Selection, kind: str, name: str) -> ShownConfig:
    """What is shown of `name`, a name of `kind`; of a method with --dataset, the whole
    configuration of a run."""
    if kind == "scorers":
        from harness import scorers

        scorer = next((n for n in scorers.names() if presets.fold(n) == presets.fold(name)), name)
        summary = ""
        if ":" in scorer:  # a function of the user's own
            registry.trust(scorer)  # the user named it
            summary = (inspect.getdoc(registry.load(scorer)) or "").partition("\n")[0]
        summary = summary or scorers.lookup(scorer).summary
        values = {"name": scorer, "summary": summary, "version": scorers.version(scorer)}
        return ShownConfig(values, dict.fromkeys(values, "harness.scorers"))
    if kind in ("suites", "profiles"):
        tree = Tree(presets.read(kind, name))
        return ShownConfig(flatten(tree.values) if tree.values else {}, tree.origins)
    if kind == "methods" and selection.dataset:
        from harness.config.resolve import resolve
        from harness.engine.plan import mistakes_in_parts

        datasets = selection.dataset
        if len(datasets) > 1:
            raise UserError("show one data set at a time")
        settings = resolve(RunRequest.of(selection).choices(name, datasets[0]), mistakes_in_parts)
        return _shown_config(_parts_of(settings), settings.origins)
    part = resolve_named(kind, name, selection)
    shown = _shown_config({_PARTS[kind]: part.value}, part.origins)
    for origin, layer in presets.read("methods", name) if kind == "methods" else ():
        for dataset, params in (layer.get("by_dataset") or {}).items():
            for key, value in flatten(params, "method.params").items():
                shown.values[f"{key} on {dataset}"] = value
                shown.origins[f"{key} on {dataset}"] = origin
    return replace(shown, notes=_dataset_notes(name, part.value)) if kind == "datasets" else shown


def _dataset_notes(name: str, config: DatasetConfig) -> dict[str, Any]:
    """Notes on a data set: lines on "download" and retrieved "documents", "options": name -> type,
    default, meaning."""
    from harness.datasets.formats import documents_given, option_fields

    options = {
        option_name: {
            "type": _type_in_words(option.annotation),
            "default": None if option.is_required() else option.get_default(),
            "meaning": option.description or "",
        }
        for option_name, option in option_fields(config.format).items()
    }
    documents = documents_given(config.format).splitlines()
    return {
        "download": presets.dataset_note(name, "download") or [],
        "options": options,
        "documents": documents,
    }


def _type_in_words(annotation: Any) -> str:
    """An option's type in words: "whole number", "text or list"."""
    inner = get_args(annotation)
    if get_origin(annotation) is Literal:
        return " or ".join(map(str, inner))
    if get_origin(annotation) is Annotated:
        return _type_in_words(inner[0])
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(
            dict.fromkeys(_type_in_words(member) for member in inner if member is not type(None))
        )
    if annotation is bool:
        return "true or false"
    return {int: "whole number", float: "number", str: "text"}.get(annotation, "list")


def _parts_of(settings: Settings) -> dict[str, Any]:
    """The parts of a run's settings by their path in RunConfig, those that nothing names left
    out."""
    parts: dict[str, Any] = {
        "method": settings.method,
        "dataset": settings.dataset,
        "model": settings.model,
        "encoder": settings.encoder,
        "reranker": settings.reranker,
    }
    parts |= {f"roles.{role}": model for role, model in settings.roles.items()}
    parts = {path: part for path, part in parts.items() if part is not None}
    return parts | dict(settings.general)


def _shown_config(parts: dict[str, Any], part_origins: Mapping[str, str]) -> ShownConfig:
    """Values with origins, a method's prompts and what its parameters mean. parts: path in
    RunConfig -> part."""
    from harness.engine.numbers_from_runs import asked_from_runs
    from harness.engine.settled_method import make_method

    values: dict[str, Any] = {}
    prompts: dict[str, str] = {}
    parameters: dict[str, str] = {}
    for path, part in parts.items():
        if path == "method":
            method = make_method(part, part_origins)
            prompts = method.prompts()
            parameters = _setting_texts(type(method.config))
            params = method.config.model_dump(mode="json", exclude={"prompts"})
            params |= asked_from_runs(type(method), part.params)
            part = part.model_copy(update={"params": params})
        inner = (
            part.model_dump(mode="json", exclude={"mark"}) if hasattr(part, "model_dump") else part
        )
        if isinstance(part, ModelConfig):
            inner |= {name: getattr(part, name) for name in SAMPLING}
        values.update(flatten(inner, path))
    origins = {k: part_origins.get(k, "default") for k in values}
    for key, origin in part_origins.items():
        if key.startswith(_REPLACED):
            name, _, turn = key.removeprefix(_REPLACED).rpartition(".")
            origins[f"prompt {name}" if turn == "user" else f"prompt {name}, system"] = origin
    return ShownConfig(values, origins, prompts, parameters=parameters)


def _setting_texts(config: type[MethodConfig]) -> dict[str, str]:
    """What each setting of a method says of itself: name -> help, without those that say nothing."""
    texts = {}
    for name, declared in config.model_fields.items():
        text = help_of(declared)
        if text:
            texts[name] = text
    return texts


def _print_difference(a: ShownConfig, b: ShownConfig, names: tuple[str, str], json: bool) -> None:
    """Print settings and prompts that differ; names: of `a` and `b`; json: print JSON, with the
    prompts' texts."""
    settings = {**a.values, **b.values}
    keys = [
        k
        for k in settings
        if not k.endswith(".name") and a.values.get(k, ()) != b.values.get(k, ())
    ]
    prompts = [p for p in {**a.prompts, **b.prompts} if a.prompts.get(p) != b.prompts.get(p)]
    if json:
        values = {k: [a.values.get(k), b.values.get(k)] for k in keys}
        texts = {f"prompt {p}": [a.prompts.get(p), b.prompts.get(p)] for p in prompts}
        print(json_.dumps(values | texts, indent=2, ensure_ascii=False))
        return
    rows = [
        (as_typed(k), *(_value_text(s.values[k]) if k in s.values else "-" for s in (a, b)))
        for k in keys
    ]
    rows += [
        (f"prompt {p}", *("differs" if p in s.prompts else "-" for s in (a, b))) for p in prompts
    ]
    print(columns([("", *names), *rows]) if rows else f"{names[0]} and {names[1]} do not differ")


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) and value else json_.dumps(value, ensure_ascii=False)
