"""Each scorer as a metric of Hugging Face `evaluate`, without the hub.

    metric = as_evaluate_metric("musique.answer_f1")
    metric.compute(predictions=["the Beatles", "x"], references=[["Beatles"], ["y"]])
        -> {"musique.answer_f1": 0.5, "scores": [1.0, 0.0], "flags": {}}

Arrow has no tuples of mixed type: a supporting fact is {"title", "sent_id"}, a span {"document_id",
"start", "end"}.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

import datasets

from harness.errors import CannotRun, UserError
from harness.scorers import NO_MARKS, ScoreError, extras, lookup, score
from harness.scorers.base import install_line, installed
from harness.storage.records import StoredSupport
from harness.types import Shown, Support

try:
    import evaluate
except ModuleNotFoundError as error:
    raise CannotRun(install_line("evaluate")) from error


_TEXT = datasets.Value("string")
_NUMBER = datasets.Value("int64")
_FACT = {"title": _TEXT, "sent_id": _NUMBER}
_SPAN = {"document_id": _TEXT, "start": _NUMBER, "end": _NUMBER}
_SHOWN = {"kind": _TEXT, **_SPAN, "sources": [_SPAN]}
_FEATURES: dict[str, tuple[Any, Any]] = {
    "answer": (_TEXT, [_TEXT]),
    "short_answers": (_TEXT, [[_TEXT]]),
    "shown": ([_SHOWN], [_SPAN]),
    "indices": ([_NUMBER], [_NUMBER]),
    "facts": ([_FACT], [_FACT]),
    "paragraphs": ([_TEXT], [_TEXT]),
    "corpus": (_TEXT, [_TEXT]),
    "retrieval": ([_TEXT], [_TEXT]),
}


class _Piece(StoredSupport):
    """A shown piece as Arrow stores it."""

    kind: Literal["span", "generated"]
    sources: list[StoredSupport]


class _Fact(TypedDict):
    """A supporting fact as Arrow stores it."""

    title: str
    sent_id: int


def _pieces(item: Sequence[_Piece]) -> list[Shown]:
    """Turn the shown pieces of an item, dicts as Arrow stores them, into `Shown`s.

    Raises UserError for an unknown kind.
    """
    return list(map(_shown, item))


def _shown(piece: _Piece) -> Shown:
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


def _fact_pairs(item: Sequence[_Fact]) -> list[tuple[str, int]]:
    """The facts of an item as pairs: [{"title": "Ada", "sent_id": 0}] -> [("Ada", 0)]."""
    return [(fact["title"], fact["sent_id"]) for fact in item]


def _supports(item: Sequence[StoredSupport]) -> list[Support]:
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
        prediction, references = _FEATURES[scorer.kind]
        shapes = [(prediction, references)]
        if scorer.kind in ("answer", "corpus"):
            # A single accepted answer need not be wrapped in a list.
            shapes.append((prediction, _TEXT))
        features = []
        for prediction_type, other in shapes:
            features.append(
                datasets.Features({"predictions": prediction_type, "references": other})
            )
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
        inputs = extras(self.scorer, extra)
        if kind in ("answer", "corpus"):
            references = list(map(_accepted_answers, references))
        if kind in ("corpus", "retrieval"):
            return {self.scorer: score(self.scorer, list(predictions), list(references), **inputs)}
        if kind == "facts":
            predictions = list(map(_fact_pairs, predictions))
            references = list(map(_fact_pairs, references))
        elif kind == "shown":
            predictions = list(map(_pieces, predictions))
            references = list(map(_supports, references))
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
        known = [value for value in scores if value is not None]
        mean = None
        if known:
            mean = sum(known) / len(known)
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
    if scorer.kind not in _FEATURES:
        raise UserError(f"'{name}' is no metric of texts; use it through harness.scorers.score")
    missing = [package for package in scorer.packages if not installed(package)]
    if missing:
        raise CannotRun(f"scorer '{name}': {install_line(missing[0])}")
    return _ScorerMetric(name, **{"keep_in_memory": True, **options})
