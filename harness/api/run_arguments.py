"""The keywords of `harness.run`, for type checkers and editors.

They are the fields of a request (run_request.py), where each is described; tests/test_api.py holds
the two equal. Python gives some of them in wider types: rows in place of a file, a class in place
of a name, one file in place of a list.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from harness.datasets.rows import Row

PathLike = str | os.PathLike[str]
Rows = Sequence[Mapping[str, object] | Row]


class RunArguments(TypedDict, total=False):
    """All but `method` and `dataset`; `progress`: whether to show a bar (a widget in a notebook)
    and what the command line says on stderr."""

    progress: bool
    suite: str | None
    app: (
        str
        | Callable[..., Any]
        | Sequence[str]
        | Sequence[Callable[..., Any]]
        | Mapping[str, str | Callable[..., Any]]
    )
    app_format: str | None
    app_map: Mapping[str, str]
    app_body: PathLike | None
    app_header: Mapping[str, str]
    app_key: str | None
    retriever: str | Callable[..., Any] | Mapping[str, str | Callable[..., Any]] | None
    retriever_format: str | None
    retriever_map: Mapping[str, str]
    retriever_body: PathLike | None
    retriever_header: Mapping[str, str]
    retriever_key: str | None
    system_prompt: PathLike | None
    answer_schema: PathLike | None
    unset: Sequence[str]
    model: PathLike | None
    data: PathLike | Rows | None
    documents: PathLike | None
    questions: PathLike | Rows | None
    columns: str | None
    corpus: PathLike | None
    allow_left_out: bool
    limit: int | None
    sample: int | None
    profile: str | None
    config: PathLike | Sequence[str] | Sequence[os.PathLike[str]]
    set: Mapping[str, object] | None
    seed: int | None
    sweep: Mapping[str, Sequence[object]]
    repeat: int | None
    record_stops: int | None
    record_t_p: float | None
    deterministic: bool
    keep_texts: bool | None
    keep_prompts: bool
    cache: str | None
    parallel: int | None
    retry_failed: bool
    fail_fast: bool
    max_tokens: int | None
    max_tflops: float | None
    max_hours: float | None
    max_money: float | None
    price_per_gpu_hour: float | None
    out: PathLike
    mlflow: str | None
    track: str | None
    traces: int
