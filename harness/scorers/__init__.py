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
from importlib import metadata
from typing import Any, TypeGuard

from harness.config import plugins, registry
from harness.config.schema import json_sha256
from harness.errors import UnknownName, UserError
from harness.scorers.base import (
    REGISTERED_SCORERS,
    ScoreError,
    Scorer,
    ScoreSheet,
    install_sentence,
    is_installed,
)
from harness.storage.own_code_hash import own_code
from harness.types import NOT_SAID, Gold, RecordedSearch, Shown

__all__ = [
    "ScoreError",
    "ScoreSheet",
    "check_extra_inputs",
    "corpus_score",
    "lookup",
    "names",
    "problems",
    "score",
    "score_answer",
    "version",
]

NO_MARKS = "no supporting marks"
NO_ANSWERS = "no accepted answer"
NO_SEARCH = "nothing was searched"
WHOLE_PAGES = "whole pages are marked, of which no passage is known"
OTHER_GROUP = "not of this group"
_PER_QUESTION = frozenset({"answer", "short_answers", "shown", "searches"})
# Those whose scorers have names; a new file is added here.
_FILES = (
    "abstention",
    "alce",
    "assertions",
    "babilong",
    "bleu",
    "evidence",
    "flashrag",
    "groups",
    "helmet",
    "hotpotqa",
    "infinitebench",
    "leval",
    "locomo",
    "loogle",
    "longbench",
    "longbench_eval",
    "longbench_pro",
    "longbench_v2",
    "longbench_zh",
    "longmemeval",
    "lveval",
    "memoryagentbench",
    "meteor",
    "musique",
    "newer_sets",
    "nolima",
    "oolong_pairs",
    "qasper",
    "quality",
    "right",
    "rouge_score",
    "ruler",
    "search",
    "triviaqa",
    "twowiki",
)


@cache
def project_scorers() -> Mapping[str, Scorer]:
    """Name -> scorer for all scorers of this project.

    The first call imports the files that define them, but none of the packages that they need.
    """
    for name in _FILES:
        importlib.import_module(f"harness.scorers.{name}")
    return REGISTERED_SCORERS


@cache
def _installed_scorers() -> dict[str, Scorer]:
    """Name -> scorer, for the scorers that installed packages add.

    They are found by the entry points "harness.scorers" and are of kind "answer". Raises UserError
    where one has the name of a scorer of this project.
    """
    target_by_name = plugins.targets(registry.ENTRY_POINT_GROUPS["scorers"])
    taken_names = sorted(target_by_name.keys() & project_scorers().keys())
    if taken_names:
        raise UserError(
            f"an installed package adds the scorer '{taken_names[0]}' ({target_by_name[taken_names[0]]}); "
            "that name is taken"
        )
    return {
        name: Scorer(function=target, origin=target, summary=f"added by {target}")
        for name, target in target_by_name.items()
    }


def names() -> list[str]:
    """The names of all scorers, sorted: this project's and those that installed packages add."""
    return sorted([*project_scorers(), *_installed_scorers()])


def lookup(name: str) -> Scorer:
    """The scorer with this name; "module:function" is the user's own function.

    Also imports the file that defines a scorer of this project.

    Raises:
        UnknownName: There is none; the message has close matches.
        UserError: It is a function that the user did not choose (config/registry).
    """
    if name in REGISTERED_SCORERS:
        return REGISTERED_SCORERS[name]
    # A name begins with that of its file, so that the others need not be imported. Of "longbench"
    # and "longbench_pro" the longer one is meant.
    files = _files_of(name)
    if files:
        importlib.import_module(f"harness.scorers.{max(files, key=len)}")
    scorer = (
        REGISTERED_SCORERS.get(name)
        or project_scorers().get(name)
        or _installed_scorers().get(name)
    )
    if scorer is not None:
        return scorer
    if ":" in name:
        registry.check_trusted(name)
        return Scorer(function=name, origin=name, summary=f"the user's own {name}")
    where = "harness list scorers; a function of your own: module:function"
    raise UnknownName("scorer", name, names(), see=where)


def is_of_project(name: str) -> bool:
    """Whether a score is one of this project's, in this version or another one; all of these are
    better the higher they are."""
    return bool(_files_of(name)) or name in project_scorers()


def _files_of(name: str) -> list[str]:
    """The files of this project by whose names a scorer's name begins."""
    return [file for file in _FILES if name == file or name.startswith((f"{file}.", f"{file}_"))]


def version(name: str) -> str:
    """The version of a scorer and of the packages it needs: "1" or "1 (rouge 1.0.1)".

    Of a scorer that another package adds, with the version of that package; of the user's own code
    with a hash of it, "1 (code 1a2b3c4d)". Only scores of one version are comparable.
    """
    scorer = lookup(name)
    distributions = [package.replace("_", "-") for package in scorer.packages]
    module = ""  # that of a function which is not this project's
    if isinstance(scorer.function, str):
        module = scorer.function.partition(":")[0]
    is_of_installed_package = bool(module) and ":" not in name
    if is_of_installed_package:
        package = module.partition(".")[0]
        distributions += metadata.packages_distributions().get(package, [package])[:1]
    parts = [_installed_version(distribution) for distribution in distributions]
    if module:
        parts += _code_version(name, module)
    if not parts:
        return scorer.version
    return f"{scorer.version} ({', '.join(parts)})"


def _installed_version(distribution: str) -> str:
    """The name and version of an installed distribution: "rouge 1.0.1", or "rouge not
    installed".
    """
    try:
        return f"{distribution} {metadata.version(distribution)}"
    except metadata.PackageNotFoundError:
        return f"{distribution} not installed"


def _code_version(name: str, module: str) -> list[str]:
    """["code 1a2b3c4d"], a hash of the code of a scorer from elsewhere, such as a user's own file;
    [] for this project's scorers, which state a version.

    Args:
        name: The scorer's name; that of a user's own has a ":" in it.
        module: The module of its function.
    """
    function_or_module: Callable[..., object] | str = module
    if ":" in name:
        function_or_module = registry.load(name)
    code = own_code(function_or_module)
    if not code:
        return []
    return [f"code {json_sha256(code)[:8]}"]


def problems(names: Iterable[str]) -> list[str]:
    """Why these scorers cannot judge the answers of a run, one sentence each; [] when all can.

    Reported are unknown names (with close matches), scorers that judge no single answer, and
    missing packages (with the line that installs them). Imports nothing but a user's own
    "module:function".
    """
    sentences: list[str] = []
    for name in names:
        try:
            scorer = lookup(name)
            if ":" in name:
                _refuse_wrong_signature(name)
        except UserError as error:
            sentences.append(str(error))
            continue
        if scorer.kind not in _PER_QUESTION:
            sentences.append(
                f"scorer '{name}' does not judge a single answer; use it through "
                "harness.scorers.score"
            )
        missing = [package for package in scorer.packages if not is_installed(package)]
        sentences += [f"scorer '{name}': {install_sentence(package)}" for package in missing]
    return sentences


def _refuse_wrong_signature(name: str) -> None:
    """Raise UserError if a user's scorer cannot be called with a prediction and references.

    Args:
        name: The scorer's name, "module:function"; the module is imported.
    """
    function = registry.load(name)
    try:
        signature = inspect.signature(function)  # TypeError where it is no function
        value_by_input = _required_by_input(function)  # any values will do
        signature.bind("", [], **value_by_input)
    except (TypeError, ValueError) as error:
        expected_inputs = "it takes the prediction and the references"
        raise UserError(f"scorer '{name}' cannot be called ({error}); {expected_inputs}") from None


def missing_input_problems(names: Iterable[str], golds: Iterable[Gold]) -> list[str]:
    """A sentence for each scorer that needs a keyword argument which no question has.

    Every answer would score 0 by such a scorer. Scorers that other packages add are passed over, so
    that their functions need not be imported.

    Args:
        names: The names of the scorers.
        golds: The gold of all questions; the keys of their `extra` are the arguments they have.
    """
    known_inputs: set[str] = set()
    for gold in golds:
        known_inputs.update(gold.extra)
    sentences = []
    for name in names:
        scorer = lookup(name)
        if ":" not in name and isinstance(scorer.function, str):
            continue
        missing = [
            key for key in _required_inputs(_load_function(scorer)) if key not in known_inputs
        ]
        if missing:
            sentences.append(
                f"scorer '{name}' needs {', '.join(missing)}, which no question has as an extra "
                "value"
            )
    return sentences


def _load_function(scorer: Scorer) -> Callable[..., object]:
    """The function of a scorer, imported where it is declared as "module:name"."""
    if not isinstance(scorer.function, str):
        return scorer.function
    loaded: Callable[..., object] = registry.load(scorer.function)
    return loaded


def _required_inputs(function: Callable[..., object]) -> list[str]:
    """The names of the keyword-only arguments of a scorer that have no default."""
    return [name for name, is_required in _required_by_input(function).items() if is_required]


@cache
def _required_by_input(function: Callable[..., object]) -> dict[str, bool]:
    """Name of a scorer's keyword argument -> whether it has to be given. Arguments bound by a
    partial are left out.

    f(prediction, references, *, dataset, backend="difflib") -> {"dataset": True, "backend": False}
    """
    bound_by_partial = getattr(function, "keywords", {})
    required_by_input: dict[str, bool] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in bound_by_partial:
            required_by_input[name] = parameter.default is inspect.Parameter.empty
    return required_by_input


def check_extra_inputs(name: str, given_inputs: Mapping[str, object]) -> dict[str, object]:
    """Check the extra inputs of a scorer, and return those that are not None.

    Args:
        name: The name of the scorer.
        given_inputs: Name -> value of each argument that is given.

    Raises:
        ScoreError: One that the scorer needs is missing, or one is not the scorer's.
    """
    function = _load_function(lookup(name))
    required_by_input = _required_by_input(function)
    inputs = {key: value for key, value in given_inputs.items() if value is not None}
    unknown_names = sorted(inputs.keys() - required_by_input.keys())
    if unknown_names:
        listed = ", ".join(sorted(required_by_input)) or "none"
        raise ScoreError(f"{name} takes no {', '.join(unknown_names)}; its extra inputs: {listed}")
    missing = sorted(set(_required_inputs(function)) - inputs.keys())
    if missing:
        raise ScoreError(f"{name} needs {', '.join(missing)}")
    return inputs


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Whether a value is a list, a tuple or the like, and no text."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def _check_inputs(name: str, scorer: Scorer, prediction: object, references: object) -> None:
    """Check that inputs have the shape of the scorer's kind (see `Scorer`).

    So that no string is taken for a list of answers.

    Args:
        name: The scorer's name, for messages.
        scorer: The scorer.
        prediction: What is scored.
        references: What it is compared with.

    Raises:
        ScoreError: They have another shape.
    """
    kind = scorer.kind
    problem = _prediction_problem(kind, prediction)
    if references or scorer.needs_answers:
        problem = problem or _references_problem(kind, references)
    if problem:
        raise ScoreError(f"{name}: {problem}")
    if kind == "text" and references:
        raise ScoreError(f"{name} takes no references")
    if kind in ("corpus", "retrieval"):
        _check_item_lists(name, kind, prediction, references)


def _check_item_lists(name: str, kind: str, predictions: object, references: object) -> None:
    """Raise ScoreError where the lists of a scorer of several items do not fit each other.

    Each item needs one prediction, a text where the kind is "corpus", and one list of references.

    Args:
        name: The scorer's name, for messages.
        kind: "corpus" or "retrieval".
        predictions: The prediction of each item.
        references: The accepted answers of each item.
    """
    if not _is_list(predictions) or not _is_list(references):  # refused elsewhere, if it is wrong
        return
    if kind == "corpus" and not all(isinstance(item, str) for item in predictions):
        raise ScoreError(
            f"{name}: every prediction must be a string, got {reprlib.repr(predictions)}"
        )
    if len(predictions) != len(references):
        raise ScoreError(
            f"{name}: {len(predictions)} predictions but {len(references)} lists of references"
        )


def _prediction_problem(kind: str, prediction: object) -> str:
    """Say what is wrong with the shape of a prediction; "" where nothing is.

    Args:
        kind: The scorer's kind (see `Scorer`).
        prediction: A string for scorers of one text, else a list.
    """
    if kind in ("answer", "short_answers", "text"):
        if not isinstance(prediction, str):
            return f"the prediction must be a string, got {reprlib.repr(prediction)}"
    elif not _is_list(prediction):
        return f"the prediction must be a list, got {reprlib.repr(prediction)}"
    return ""


def _references_problem(kind: str, references: object) -> str:
    """Say what is wrong with the shape of the references; "" where nothing is.

    Args:
        kind: The scorer's kind (see `Scorer`).
        references: A list of strings for "answer"; of lists for "short_answers", "corpus" and
            "retrieval".
    """
    if not _is_list(references):
        return f"the references must be a list, got {reprlib.repr(references)}"
    if kind == "answer" and not all(isinstance(reference, str) for reference in references):
        return f"every reference must be a string, got {reprlib.repr(references)}"
    if kind in ("short_answers", "corpus", "retrieval") and not all(map(_is_list, references)):
        return f"the references must be a list of lists, got {reprlib.repr(references)}"
    if kind in ("answer", "short_answers") and not references:
        return "there is no reference to compare with"
    return ""


def score(name: str, prediction: object, references: object = (), **extra: object) -> Any:
    """Compute a score: a number from 0 to 1, or to 100 for the few scorers in percent.

    Normalisers return a text, longbench.scorer_e a dict by length, and evidence recall without
    supporting marks None. A function of the caller's own may be run from now on, as it is named
    here.

    Args:
        name: The scorer's name; "module:function" is one of the caller's own.
        prediction: A text; of list and support scorers (see `Scorer`) a list; of evidence recall
            what was shown.
        references: The accepted answers; of evidence recall the supporting marks.
        **extra: The scorer's own inputs, for instance all_classes, dataset, lengths, backend; one
            that is None counts as not given.

    Raises:
        ScoreError: The value is undefined, an input has the wrong shape, is missing, or is not the
            scorer's.
        UnknownName: There is no such scorer.
        CannotRun: A package is missing, with the line that installs it.
    """
    registry.trust(name)
    scorer = lookup(name)
    inputs = check_extra_inputs(name, extra)
    _check_inputs(name, scorer, prediction, references)
    function = _load_function(scorer)
    if scorer.kind == "text":
        return function(prediction)
    return function(prediction, references, **inputs)


def score_answer(
    names: Iterable[str],
    prediction: str,
    shown: Sequence[Shown],
    gold: Gold,
    seconds: float | None = None,
    searches: Sequence[RecordedSearch] | None = None,
) -> ScoreSheet:
    """Judge one answer by every scorer in `names`, order kept: scores, flags, and the counts that a
    score of all answers (BLEU) is made of, each by name of the scorer.

    A scorer that raises ScoreError scores 0.0. One that has no value for the question, as nothing is
    marked or it is of another group, is left out. Both are flagged with the reason. A scorer's
    extra inputs are taken from gold.extra by name.

    Args:
        names: Names of scorers.
        prediction: The answer.
        shown: What the reader saw.
        gold: The accepted answers, supporting passages and extra inputs.
        seconds: How long the answer took, None where unknown; the input "seconds" of a scorer.
        searches: The searches of the question; None where its run searches nothing.

    Raises:
        UnknownName: A scorer that is not there.
        CannotRun: A missing package.
        TypeError: A scorer returned no score.
    """
    sheet = ScoreSheet()
    for name in names:
        scorer = lookup(name)
        counts = _counts_of_answer(scorer, prediction, gold)
        if counts is not None:
            sheet.counts[name] = counts
        try:
            if scorer.kind == "searches":
                value = _value_of_searches(name, searches, gold)
            else:
                value = _value_of_answer(name, prediction, shown, gold, seconds)
        except ScoreError as error:
            sheet.scores[name] = 0.0
            sheet.flags[name] = str(error)
            continue
        if value is not None:
            sheet.scores[name] = _as_score(name, value)
        else:
            sheet.flags[name] = _why_no_score(scorer, shown, gold, searches)
    return sheet


def _counts_of_answer(scorer: Scorer, prediction: str, gold: Gold) -> list[int] | None:
    """The counts of one answer, of which `corpus_score` needs the sums over all answers.

    Args:
        scorer: The scorer.
        prediction: The answer.
        gold: The accepted answers.

    Returns:
        The counts; None for a scorer that has none, and for an answer where they are undefined.
    """
    if scorer.counts is None or not gold.answers:
        return None
    try:
        return list(scorer.counts(prediction, gold.answers))
    except ScoreError:  # as for the score itself, which is flagged
        return None


def _value_of_searches(name: str, searches: Sequence[RecordedSearch] | None, gold: Gold) -> object:
    """What a scorer of kind "searches" returns for one question; None where it gives no score.

    Args:
        name: The scorer's name.
        searches: The searches of the question; None where its run searches nothing.
        gold: The supporting passages and extra inputs.
    """
    if searches is None:
        return None
    return score(name, searches, gold.supporting, **_inputs_from_gold(lookup(name), gold))


def _inputs_from_gold(scorer: Scorer, gold: Gold) -> dict[str, object]:
    """The extra inputs of a scorer that the gold of a question has: {"all_classes": [...]}."""
    input_names = _required_by_input(_load_function(scorer))
    return {name: gold.extra[name] for name in input_names if name in gold.extra}


def _value_of_answer(
    name: str, prediction: str, shown: Sequence[Shown], gold: Gold, seconds: float | None
) -> object:
    """What a scorer returns for one answer; None where it gives no score, as where it compares with
    accepted answers and there are none.

    The scorer's kind decides what it compares:

        answer           the answer with the accepted answers
        short_answers    the answer with those of the sub-questions
        shown            what was shown with the supporting passages

    Scorers of the kind "searches" are called by `_value_of_searches`.

    Args:
        name: The scorer's name.
        prediction: The answer.
        shown: What the reader saw.
        gold: The accepted answers, supporting passages and extra inputs.
        seconds: How long the answer took, None where unknown.

    Raises:
        ScoreError: The score is undefined.
    """
    scorer = lookup(name)
    needs_answers = scorer.kind == "answer" and scorer.needs_answers
    if needs_answers and not gold.answers:
        return None
    if scorer.kind not in _PER_QUESTION:
        raise ScoreError(f"{name} does not judge a single answer")
    if scorer.kind == "short_answers" and "short_answers" not in gold.extra:
        raise ScoreError(f"{name} needs short_answers, which this question does not have")
    inputs = _inputs_from_gold(scorer, gold)
    takes_seconds = "seconds" in _required_by_input(_load_function(scorer))
    if takes_seconds:
        inputs["seconds"] = seconds
    if scorer.kind == "shown":
        return score(name, shown, gold.supporting, **inputs)
    if scorer.kind == "short_answers":
        return score(name, prediction, gold.extra["short_answers"], **inputs)
    return score(name, prediction, gold.answers, **inputs)


def _why_no_score(
    scorer: Scorer, shown: Sequence[Shown], gold: Gold, searches: Sequence[RecordedSearch] | None
) -> str:
    """The reason why a scorer gave a question no score, "no supporting marks".

    Args:
        scorer: The scorer.
        shown: What the reader saw.
        gold: The accepted answers and supporting passages.
        searches: The searches of the question; None where its run searches nothing.
    """
    if scorer.kind == "searches":
        return NO_SEARCH if searches is None else NO_MARKS
    if scorer.kind == "shown":
        return _why_no_evidence(shown, gold)
    if scorer.why_none:
        return scorer.why_none
    if not gold.answers:
        return NO_ANSWERS
    return OTHER_GROUP


def _why_no_evidence(shown: Sequence[Shown], gold: Gold) -> str:
    """The reason why a scorer of what was shown gave a question no score.

    The question has no supporting passages, the application did not say what it used, or only
    whole pages are marked.
    """
    if not gold.supporting:
        return NO_MARKS
    if any(piece.kind == "unknown" for piece in shown):
        return NOT_SAID
    if gold.extra.get("whole_pages"):
        return WHOLE_PAGES
    return NO_MARKS


def _as_score(name: str, value: Any) -> float:
    """Return a scorer's value as a float, if it is a number from 0 to 1 or one that is not finite.

    Raises TypeError for anything else, which names the scorer.
    """
    with suppress(TypeError, ValueError):
        number = float(value)
        if not math.isfinite(number) or -1e-6 <= number <= 1 + 1e-6:  # sums round
            return number
    raise TypeError(
        f"scorer '{name}' returned {reprlib.repr(value)}; it should return a number from 0 to 1, "
        "or None"
    )


def corpus_score(name: str, sums: Sequence[float]) -> float:
    """The score of a whole set of answers, such as BLEU, from sums of counts.

    Args:
        name: The name of a scorer of answers that has counts.
        sums: One sum over the answers for each of the counts that the scorer gives an answer.

    Raises:
        ScoreError: It is undefined.
        UserError: The scorer has no counts.
    """
    score_of_sums = lookup(name).score_of_sums
    if score_of_sums is None:
        raise UserError(f"scorer '{name}' has no counts that add up to a score of all answers")
    return float(score_of_sums(sums))
