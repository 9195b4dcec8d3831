"""Entry point of the scorers: published metrics named by origin, equal to what the origin's own
code prints.

    score("musique.answer_f1", "the Beatles", ["Beatles"])           -> 1.0
    score("longbench.classification_score", text, [gold], all_classes=classes)
    score_answer(names, prediction, shown, gold)                     -> ScoreSheet(scores, flags, counts)
    corpus_score("hf_bleu.bleu4", sums of the counts)                -> hf_bleu.corpus_bleu4 of all answers
    problems(["musique.anser_f1"])                                   -> ["unknown scorer ... Did you mean ...?"]

"F1" is not one metric (yes/no rules, punctuation, empty texts differ), so no scorer is called just
that. Importing this package loads no scorer and none of their packages; `harness.scorers.hf` offers
each scorer as an `evaluate` metric.
"""

import importlib
import inspect
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from harness.config import registry
from harness.config.schema import digest
from harness.errors import UnknownName, UserError
from harness.scorers.base import TABLE, ScoreError, Scorer, ScoreSheet, install_line, installed
from harness.types import NOT_SAID, Gold, Shown

__all__ = [
    "ScoreError",
    "ScoreSheet",
    "corpus_score",
    "extras",
    "lookup",
    "names",
    "problems",
    "score",
    "score_answer",
    "version",
]

NO_MARKS = "no supporting marks"
OTHER_GROUP = "not of this group"
_PER_QUESTION = frozenset({"answer", "short_answers", "shown"})
_FILES = (  # those whose scorers have names; a new file is added here
    *(
        "abstention",
        "alce",
        "bleu",
        "evidence",
        "flashrag",
        "groups",
        "hotpotqa",
        "infinitebench",
        "longbench",
    ),
    *(
        "longbench_eval",
        "longbench_pro",
        "longbench_v2",
        "longbench_zh",
        "longmemeval",
        "musique",
        "newer_sets",
    ),
    *("qasper", "quality", "rouge_score", "ruler", "triviaqa", "twowiki"),
)


@cache
def table() -> Mapping[str, Scorer]:
    """Name -> this project's scorer. The first call imports their files, none of their packages."""
    for name in _FILES:
        importlib.import_module(f"harness.scorers.{name}")
    return TABLE


@cache
def _installed_scorers() -> dict[str, Scorer]:
    """Name -> scorer of kind "answer" that an installed package adds by the entry points
    "harness.scorers"."""
    added = registry.plugins(registry.GROUPS["scorers"])
    if clash := sorted(added.keys() & table().keys()):
        raise UserError(
            f"an installed package adds the scorer '{clash[0]}' ({added[clash[0]]}); that name is "
            "taken"
        )
    return {name: Scorer(target, target, f"added by {target}") for name, target in added.items()}


def names() -> list[str]:
    """All scorer names, sorted: this project's and those that installed packages add."""
    return sorted([*table(), *_installed_scorers()])


def lookup(name: str) -> Scorer:
    """The scorer `name`; "module:function" is the user's own.

    Raises UnknownName with close matches, and UserError for a function that the user did not choose
    (config/registry).
    """
    # A name begins with that of its file, so that the others need not be imported.
    files = [file for file in _FILES if name.startswith((f"{file}.", f"{file}_"))]
    if name not in TABLE and files:
        importlib.import_module(f"harness.scorers.{max(files, key=len)}")
    scorer = TABLE.get(name) or table().get(name) or _installed_scorers().get(name)
    if scorer is None and ":" in name:
        registry.check_trusted(name)
        return Scorer(name, name, f"the user's own {name}")
    if scorer is None:
        raise UnknownName(
            "scorer",
            name,
            names(),
            see="harness list scorers; a function of your own: module:function",
        )
    return scorer


def version(name: str) -> str:
    """Version of a scorer and of its packages, "1" or "1 (rouge 1.0.1)". Only scores of one version
    are comparable."""
    from importlib import metadata

    scorer = lookup(name)
    distributions = [package.replace("_", "-") for package in scorer.packages]
    module = scorer.function.partition(":")[0] if isinstance(scorer.function, str) else ""
    if module and ":" not in name:  # another package's scorer changes with that package
        package = module.partition(".")[0]
        distributions += metadata.packages_distributions().get(package, [package])[:1]
    parts = []
    for package in distributions:
        try:
            parts.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            parts.append(f"{package} not installed")
    if module:
        from harness.storage.own_code_hash import own_code

        if code := own_code(registry.load(name) if ":" in name else module):
            parts.append(f"code {digest(code)[:8]}")
    return f"{scorer.version} ({', '.join(parts)})" if parts else scorer.version


def problems(names: Iterable[str]) -> list[str]:
    """Why these scorers cannot judge the answers of a run, one sentence each; an empty list when
    all can.

    Unknown names (with close matches), scorers that judge no single answer, missing packages (with
    the install line). Imports nothing but a user's own "module:function".
    """
    sentences = []
    for name in names:
        try:
            scorer = lookup(name)
            if ":" in name:
                function = registry.load(name)
                try:
                    inspect.signature(function).bind("", [], **_extra_inputs(function))
                except (TypeError, ValueError) as error:
                    problem = f"scorer '{name}' cannot be called ({error}); it takes the prediction and the references"
                    raise UserError(problem) from None
        except UserError as error:
            sentences.append(str(error))
            continue
        if scorer.kind not in _PER_QUESTION:
            sentences.append(
                f"scorer '{name}' does not judge a single answer; use it through "
                "harness.scorers.score"
            )
        sentences += [
            f"scorer '{name}': {install_line(p)}" for p in scorer.packages if not installed(p)
        ]
    return sentences


def lacking_inputs(names: Iterable[str], golds: Iterable[Gold]) -> list[str]:
    """A sentence for each scorer with a required keyword argument that no question has: every
    answer would score 0."""
    sentences, keys = [], {key for gold in golds for key in gold.extra}
    for name in names:
        scorer = lookup(name)
        if ":" in name or not isinstance(
            scorer.function, str
        ):  # other packages' functions are not loaded for this
            inputs = _extra_inputs(_load_function(scorer)).items()
            if missing := [key for key, required in inputs if required and key not in keys]:
                sentences.append(
                    f"scorer '{name}' needs {', '.join(missing)}, which no question has as an "
                    "extra value"
                )
    return sentences


def _load_function(scorer: Scorer) -> Callable[..., Any]:
    loaded: Callable[..., Any] = (
        registry.load(scorer.function) if isinstance(scorer.function, str) else scorer.function
    )
    return loaded


@cache
def _extra_inputs(function: Callable[..., Any]) -> dict[str, bool]:
    """Name of a scorer's keyword argument -> whether it has to be given. Arguments bound by a
    partial are left out."""
    bound = getattr(function, "keywords", {})
    return {
        name: parameter.default is inspect.Parameter.empty
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in bound
    }


def extras(name: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs in `extra` that are not None. Raises ScoreError for one missing, or unknown to
    scorer `name`."""
    known = _extra_inputs(_load_function(lookup(name)))
    inputs = {key: value for key, value in extra.items() if value is not None}
    if unknown_names := sorted(inputs.keys() - known.keys()):
        listed = ", ".join(sorted(known)) or "none"
        raise ScoreError(f"{name} takes no {', '.join(unknown_names)}; its extra inputs: {listed}")
    if missing := sorted(key for key, needed in known.items() if needed and key not in inputs):
        raise ScoreError(f"{name} needs {', '.join(missing)}")
    return inputs


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _check_inputs(name: str, kind: str, prediction: Any, references: Any) -> None:
    """Raise ScoreError for inputs not of the shape of `kind` (see Scorer), such as a string for a
    list of answers."""
    wants_text = kind in ("answer", "short_answers", "text")
    if wants_text != isinstance(prediction, str) or not (wants_text or _is_list(prediction)):
        raise ScoreError(
            f"{name}: the prediction must be a {'string' if wants_text else 'list'}, got "
            f"{reprlib.repr(prediction)}"
        )
    if not _is_list(references):
        raise ScoreError(f"{name}: the references must be a list, got {reprlib.repr(references)}")
    if kind == "answer" and not all(isinstance(reference, str) for reference in references):
        raise ScoreError(
            f"{name}: every reference must be a string, got {reprlib.repr(references)}"
        )
    if kind in ("short_answers", "corpus", "retrieval") and not all(
        _is_list(item) for item in references
    ):
        raise ScoreError(
            f"{name}: the references must be a list of lists, got {reprlib.repr(references)}"
        )
    if kind in ("answer", "short_answers") and not references:
        raise ScoreError(f"{name}: there is no reference to compare with")
    if kind == "text" and references:
        raise ScoreError(f"{name} takes no references")
    if kind == "corpus" and not all(isinstance(item, str) for item in prediction):
        raise ScoreError(
            f"{name}: every prediction must be a string, got {reprlib.repr(prediction)}"
        )
    if kind in ("corpus", "retrieval") and len(prediction) != len(references):
        raise ScoreError(
            f"{name}: {len(prediction)} predictions but {len(references)} lists of references"
        )


def score(name: str, prediction: Any, references: Any = (), **extra: Any) -> Any:
    """The value of scorer `name`: a float, 0..1 where the table does not say percent.

    prediction and references: a text and its accepted answers; for list and support scorers (see
    `Scorer`) lists; for evidence recall what was shown and the supporting marks. extra: the
    scorer's own inputs, for instance all_classes, dataset, lengths, backend; one that is None
    counts as not given. Normalisers return a text, longbench.scorer_e a dict by length, evidence
    recall without marks None.

    A scorer of the caller's own is "module:function". Raises ScoreError (undefined value, wrong
    shape, an extra missing or not the scorer's), UnknownName, and CannotRun with the install line
    for a missing package.
    """
    registry.trust(name)
    scorer = lookup(name)
    inputs = extras(name, extra)
    _check_inputs(name, scorer.kind, prediction, references)
    function = _load_function(scorer)
    if scorer.kind == "text":
        return function(prediction)
    return function(prediction, references, **inputs)


def score_answer(
    names: Iterable[str], prediction: str, shown: Sequence[Shown], gold: Gold
) -> ScoreSheet:
    """Judge one answer by every scorer in `names`, order kept.

    A scorer that raises ScoreError scores 0.0 and is flagged with the reason; evidence recall of a
    question without supporting marks, and a group's score of a question of another group, are left
    out and flagged. A scorer's extra inputs are taken from gold.extra by name. Raises UnknownName,
    CannotRun (a missing package), TypeError (no score).
    """
    sheet = ScoreSheet()
    for name in names:
        scorer = lookup(name)
        if scorer.counts:
            with suppress(ScoreError):  # as for the score itself, which is flagged below
                sheet.counts[name] = list(scorer.counts(prediction, gold.answers))
        try:
            if scorer.kind not in _PER_QUESTION:
                raise ScoreError(f"{name} does not judge a single answer")
            if scorer.kind == "short_answers" and "short_answers" not in gold.extra:
                raise ScoreError(f"{name} needs short_answers, which this question does not have")
            known = _extra_inputs(_load_function(scorer))
            inputs = {key: gold.extra[key] for key in known if key in gold.extra}
            if scorer.kind == "shown":
                value = score(name, shown, gold.supporting, **inputs)
            else:
                references = (
                    gold.answers if scorer.kind == "answer" else gold.extra["short_answers"]
                )
                value = score(name, prediction, references, **inputs)
        except ScoreError as error:
            sheet.scores[name] = 0.0
            sheet.flags[name] = str(error)
            continue
        if value is None:
            sheet.flags[name] = OTHER_GROUP
            if scorer.kind == "shown":
                sheet.flags[name] = NOT_SAID if gold.supporting else NO_MARKS
            continue
        try:
            sheet.scores[name] = number = float(value)
            if math.isfinite(number) and not -1e-6 <= number <= 1 + 1e-6:  # sums round
                raise ValueError
        except (TypeError, ValueError):
            problem = f"scorer '{name}' returned {reprlib.repr(value)}; it should return a number from 0 to 1, or None"
            raise TypeError(problem) from None
    return sheet


def corpus_score(name: str, totals: Sequence[float]) -> float:
    """The score of a set of answers whose counts by scorer `name` add up to `totals`.

    totals: in the order of the counts. Raises ScoreError where undefined, UserError for a scorer
    without counts.
    """
    total = lookup(name).total
    if total is None:
        raise UserError(f"scorer '{name}' has no counts that add up to a score of all answers")
    return float(total(totals))
