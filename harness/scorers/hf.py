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
    """The shown pieces of an item, from the dicts that Arrow stores. Raises UserError for an
    unknown kind."""
    return list(map(_shown, item))


def _shown(piece: _Piece) -> Shown:
    """A shown piece, from a dict that Arrow stores. Raises UserError for an unknown kind."""
    if piece["kind"] not in ("span", "generated"):
        raise UserError(f"kind must be 'span' or 'generated', got {piece['kind']!r}")
    sources = [(span["document_id"], span["start"], span["end"]) for span in piece["sources"]]
    return Shown(
        piece["kind"], piece["document_id"], piece["start"], piece["end"], sources=tuple(sources)
    )


def _accepted_answers(item: str | Sequence[str]) -> Sequence[str]:
    """The accepted answers of an item, which may be a single one without a list."""
    if isinstance(item, str):
        return [item]
    return item


def _fact_pairs(item: Sequence[_Fact]) -> list[tuple[str, int]]:
    """The facts of an item as (title, number of the sentence)."""
    return [(fact["title"], fact["sent_id"]) for fact in item]


def _supports(item: Sequence[StoredSupport]) -> list[Support]:
    """The supporting passages of an item, from the dicts that Arrow stores."""
    return [Support(span["document_id"], span["start"], span["end"]) for span in item]


class _ScorerMetric(evaluate.Metric):  # type: ignore[misc]  # evaluate is untyped
    """`as_evaluate_metric` of one scorer, by its name; `compute` takes its extra inputs
    (all_classes ..) by keyword."""

    def __init__(self, scorer: str, **options: Any) -> None:
        self.scorer = scorer
        super().__init__(**options)

    def _info(self) -> evaluate.MetricInfo:
        """What `evaluate` has to know of a metric: its description, and the types of its inputs."""
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
        """Score a list of items, for `compute`; the result is that of `as_evaluate_metric`."""
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
    """The scorer `name` as an evaluate.Metric; `options` go to its constructor (cache_dir,
    experiment_id ...).

    compute returns {name: mean, "scores": one per item, "flags": {item: reason}}; an item whose
    score is undefined counts 0.0 and is flagged, one without supporting marks is None and left out
    of the mean. Scorers of kind corpus and retrieval return {name: value} for the whole list.
    Nothing is fetched. Raises UnknownName, UserError for a normaliser, CannotRun with the install
    line for a missing package.
    """
    scorer = lookup(name)
    if scorer.kind not in _FEATURES:
        raise UserError(f"'{name}' is no metric of texts; use it through harness.scorers.score")
    missing = [package for package in scorer.packages if not installed(package)]
    if missing:
        raise CannotRun(f"scorer '{name}': {install_line(missing[0])}")
    return _ScorerMetric(name, **{"keep_in_memory": True, **options})
