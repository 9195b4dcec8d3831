"""Each scorer as a metric of Hugging Face `evaluate`, without the hub.

    metric = as_evaluate_metric("musique.answer_f1")
    metric.compute(predictions=["the Beatles", "x"], references=[["Beatles"], ["y"]])
        -> {"musique.answer_f1": 0.5, "scores": [1.0, 0.0], "flags": {}}

Arrow has no tuples of mixed type: a supporting fact is {"title", "sent_id"}, a span {"document_id",
"start", "end"}.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict

import datasets

from harness.errors import CannotRun, UserError
from harness.scorers import NO_MARKS, ScoreError, check_extra_inputs, lookup, score
from harness.scorers.base import install_sentence, is_installed
from harness.storage.records import StoredSupport
from harness.types import Shown, Support

try:
    import evaluate
except ModuleNotFoundError as error:
    raise CannotRun(install_sentence("evaluate")) from error


_TEXT = datasets.Value("string")
_NUMBER = datasets.Value("int64")
_FACT = {"title": _TEXT, "sent_id": _NUMBER}
_SPAN = {"document_id": _TEXT, "start": _NUMBER, "end": _NUMBER}
_SHOWN = {"kind": _TEXT, **_SPAN, "sources": [_SPAN]}


class _ItemTypes(NamedTuple):
    """Arrow's types of the prediction and the references of one item."""

    prediction: Any
    references: Any


_TYPES_BY_KIND = {
    "answer": _ItemTypes(_TEXT, [_TEXT]),
    "short_answers": _ItemTypes(_TEXT, [[_TEXT]]),
    "shown": _ItemTypes([_SHOWN], [_SPAN]),
    "indices": _ItemTypes([_NUMBER], [_NUMBER]),
    "facts": _ItemTypes([_FACT], [_FACT]),
    "paragraphs": _ItemTypes([_TEXT], [_TEXT]),
    "corpus": _ItemTypes(_TEXT, [_TEXT]),
    "retrieval": _ItemTypes([_TEXT], [_TEXT]),
}


class _ArrowPiece(StoredSupport):
    """A shown piece as Arrow stores it."""

    kind: Literal["span", "generated"]
    sources: list[StoredSupport]


class _ArrowFact(TypedDict):
    """A supporting fact as Arrow stores it."""

    title: str
    sent_id: int


def _shown_of_item(item: Sequence[_ArrowPiece]) -> list[Shown]:
    """Turn the shown pieces of an item, dicts as Arrow stores them, into `Shown`s.

    Raises UserError for an unknown kind.
    """
    return list(map(_shown_of_piece, item))


def _shown_of_piece(piece: _ArrowPiece) -> Shown:
    """Turn one shown piece, a dict as Arrow stores it, into a `Shown`.

    Raises UserError for a kind that is neither "span" nor "generated".
    """
    if piece["kind"] not in ("span", "generated"):
        raise UserError(f"kind must be 'span' or 'generated', got {piece['kind']!r}")
    sources = [(span["document_id"], span["start"], span["end"]) for span in piece["sources"]]
    return Shown(
        piece["kind"], piece["document_id"], piece["start"], piece["end"], sources=tuple(sources)
    )


def _accepted_answers(item: str | Sequence[str]) -> Sequence[str]:
    """The accepted answers of an item as a list; a single one may be given without: "a" ->
    ["a"].
    """
    if isinstance(item, str):
        return [item]
    return item


def _facts_of_item(item: Sequence[_ArrowFact]) -> list[tuple[str, int]]:
    """The facts of an item as pairs: [{"title": "Ada", "sent_id": 0}] -> [("Ada", 0)]."""
    return [(fact["title"], fact["sent_id"]) for fact in item]


def _supports_of_item(item: Sequence[StoredSupport]) -> list[Support]:
    """Turn the supporting passages of an item, dicts as Arrow stores them, into `Support`s."""
    return [Support(span["document_id"], span["start"], span["end"]) for span in item]


class _ScorerMetric(evaluate.Metric):  # type: ignore[misc]  # evaluate is untyped
    """`as_evaluate_metric` of one scorer, by its name; `compute` takes its extra inputs
    (all_classes ..) by keyword."""

    def __init__(self, scorer: str, **options: Any) -> None:
        """Keep the scorer's name; `options` are those of evaluate.Metric."""
        self.scorer = scorer
        super().__init__(**options)

    def _info(self) -> evaluate.MetricInfo:
        """The description of this metric for `evaluate`, with the types of the predictions and
        references.
        """
        scorer = lookup(self.scorer)
        types = _TYPES_BY_KIND[scorer.kind]
        accepted_types = [types]
        if scorer.kind in ("answer", "corpus"):
            # A single accepted answer need not be wrapped in a list.
            accepted_types.append(_ItemTypes(types.prediction, _TEXT))
        features = [
            datasets.Features({"predictions": each.prediction, "references": each.references})
            for each in accepted_types
        ]
        return evaluate.MetricInfo(
            description=f"{self.scorer}, version {scorer.version}: {scorer.summary}. Origin: {scorer.origin}.",
            citation="",
            inputs_description=f"predictions and references, one of each an item: see Scorer, kind {scorer.kind!r}.",
            features=features,
        )

    def _compute(
        self, predictions: Sequence[Any], references: Sequence[Any], **extra: Any
    ) -> dict[str, object]:
        """Score a list of items; `evaluate` calls it for `compute`.

        Args:
            predictions: The prediction of each item, in the shape of the scorer's kind.
            references: The references of each item.
            **extra: The scorer's extra inputs, the same for all items.

        Returns:
            {name: mean, "scores": one for each item, "flags": {index of the item: reason}}; for
            scorers of a whole list {name: value}.
        """
        kind = lookup(self.scorer).kind
        inputs = check_extra_inputs(self.scorer, extra)
        if kind in ("answer", "corpus"):
            references = list(map(_accepted_answers, references))
        if kind in ("corpus", "retrieval"):
            return {self.scorer: score(self.scorer, list(predictions), list(references), **inputs)}
        if kind == "facts":
            predictions = list(map(_facts_of_item, predictions))
            references = list(map(_facts_of_item, references))
        elif kind == "shown":
            predictions = list(map(_shown_of_item, predictions))
            references = list(map(_supports_of_item, references))
        return self._scores_of_items(predictions, references, inputs)

    def _scores_of_items(
        self,
        predictions: Sequence[Any],
        references: Sequence[Any],
        inputs: Mapping[str, object],
    ) -> dict[str, object]:
        """Score each item: {name: mean, "scores": one for each item, "flags": {index: reason}}.

        An undefined score is 0.0 with a flag; one of None has a flag too and is not in the mean.

        Args:
            predictions: The prediction of each item, as the scorer takes it.
            references: The references of each item, as the scorer takes them.
            inputs: The scorer's extra inputs.
        """
        scores: list[float | None] = []
        flags: dict[int, str] = {}
        for index, (prediction, gold) in enumerate(zip(predictions, references, strict=True)):
            value: float | None = 0.0
            try:
                value = score(self.scorer, prediction, gold, **inputs)
            except ScoreError as error:
                flags[index] = str(error)
            if value is None:
                flags[index] = NO_MARKS
            scores.append(value)
        defined_scores = [value for value in scores if value is not None]
        mean = None
        if defined_scores:
            mean = sum(defined_scores) / len(defined_scores)
        return {self.scorer: mean, "scores": scores, "flags": flags}


def as_evaluate_metric(name: str, **options: Any) -> evaluate.Metric:
    """Make an evaluate.Metric of a scorer; nothing is fetched.

    Its `compute` returns {name: mean, "scores": one per item, "flags": {item: reason}}. An item
    whose score is undefined counts 0.0 and is flagged; one without supporting marks is None and
    left out of the mean. Scorers of kind corpus and retrieval give {name: value} of the whole list.

    Args:
        name: The scorer's name.
        **options: For the constructor of evaluate.Metric: cache_dir, experiment_id ...

    Raises:
        UnknownName: There is no such scorer.
        UserError: It is not a metric of texts.
        CannotRun: A package that it needs is missing; the message has the line that installs it.
    """
    scorer = lookup(name)
    if scorer.kind not in _TYPES_BY_KIND:
        raise UserError(f"'{name}' is no metric of texts; use it through harness.scorers.score")
    missing = [package for package in scorer.packages if not is_installed(package)]
    if missing:
        raise CannotRun(f"scorer '{name}': {install_sentence(missing[0])}")
    return _ScorerMetric(name, **{"keep_in_memory": True, **options})
