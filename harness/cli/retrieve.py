"""`harness retrieve --dataset NAME --corpus PATH`: write the documents that a retriever returns for
each question.

exit 0 written · 2 a mistake, nothing was written · 3 something could not be saved · 130 interrupted
"""

from __future__ import annotations

import hashlib
import json as json_
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harness.cli.command import choice, output, setting
from harness.cli.options import Json
from harness.cli.output import say
from harness.cli.stage_progress import stage_progress
from harness.cli.stopping import until_interrupted
from harness.config import presets
from harness.config.layers import Choices
from harness.config.resolve import resolve_dataset, resolve_encoder
from harness.config.schema import DatasetConfig, EncoderConfig
from harness.config.yaml_tree import parse_assignments
from harness.datasets.retrieved import load_questions
from harness.errors import ConfigError, UserError
from harness.retrieval.corpus import write_folder_as_corpus
from harness.retrieval.retrieval_run import (
    RetrievalRequest,
    RetrievalResult,
    check_packages,
    write_retrieved,
)
from harness.storage.files import check_home, harness_home

_BM25 = "bm25"


@dataclass(frozen=True)
class RetrieveOptions:
    """What is retrieved for which questions, and where it is written."""

    dataset: Annotated[
        str,
        choice(
            "--dataset -d NAME",
            "Data set of open questions (nq, triviaqa, popqa ...).",
            complete="datasets",
        ),
    ]
    corpus: Annotated[
        str,
        choice(
            "--corpus PATH",
            "Wikipedia in FlashRAG's or KILT's form (JSON lines) or DPR's table, also gzipped; or "
            "a folder of pages.",
        ),
    ]
    retriever: Annotated[
        str,
        choice(
            "--retriever NAME",
            "bm25, or an encoder (harness list encoders), e.g. e5.",
            complete="encoders",
        ),
    ] = _BM25
    data: Annotated[
        str | None, choice("--data PATH", "Local file or folder of questions instead of the hub.")
    ] = None
    limit: Annotated[
        int | None, choice("--limit N", "Only the first N questions.", "all", min=1)
    ] = None
    top: Annotated[int, setting("--top N", "Documents of each question.", min=1)] = 8
    words: Annotated[
        int, setting("--words N", "Words of a passage, where pages are cut into passages.", min=1)
    ] = 100
    sets: Annotated[
        list[str] | None,
        setting(
            "--set KEY=VALUE ...",
            "Any setting of data set or encoder: dataset.split=dev encoder.device=cuda.",
        ),
    ] = None
    index: Annotated[
        str | None,
        output("--index DIR", "Folder of the corpus's indexes.", "retrieval/ in HARNESS_HOME"),
    ] = None
    out: Annotated[
        str | None, output("--out FILE", "File to write.", "retrieved/DATASET-RETRIEVER.jsonl")
    ] = None


def retrieve(options: RetrieveOptions, json: Json = False) -> int:
    """Retrieve documents of a corpus for the questions of a data set.

    Writes the file that dataset.documents names in a run. Ranks passages by BM25 or an encoder; a
    document's score is that of its best passage. Indexes are kept, and the same command resumes one
    that was interrupted. Right answers are used for the printed recall only.
    """
    dataset, encoder = _resolve_configs(options)
    check_packages(encoder)
    corpus = _corpus_file(options.corpus)
    target = _target_file(options, dataset)
    request = RetrievalRequest(
        corpus_file=corpus,
        encoder=encoder,
        max_documents=options.top,
        words_per_passage=options.words,
        index_folder=_index_folder(options, corpus),
        out=target,
    )
    questions = load_questions(dataset, options.limit)
    questions_source = {"name": dataset.name, "split": dataset.split, "data": dataset.hub}
    if options.data:
        questions_source["data"] = Path(options.data).name

    def search_and_print() -> int:
        """Search for every question, write the file and print the result. Returns the exit code
        0.
        """
        with stage_progress() as progress:
            result = write_retrieved(request, questions, questions_source, progress)
        if json:
            _print_json(result, target)
        else:
            _print_text(result, target, options.top)
        _print_next_step(result, target, dataset.name)
        return 0

    return until_interrupted(search_and_print, "interrupted; finished parts of the index are kept")


def _corpus_file(corpus: str) -> Path:
    """The corpus as one file. A folder of pages is also written as one file, in HARNESS_HOME.

    Raises UserError if there is no such file or folder.
    """
    path = Path(corpus).expanduser()
    if not path.exists():
        raise UserError(f"--corpus {corpus}: no such file or folder")
    check_home()
    if not path.is_dir():
        return path
    file, warnings = write_folder_as_corpus(path, harness_home() / "retrieval")
    for warning in warnings:
        say(f"warning: {warning}")
    return file


def _index_folder(options: RetrieveOptions, corpus: Path) -> Path:
    """The folder for the corpus's indexes: --index, or one in HARNESS_HOME named after the
    corpus.
    """
    if options.index:
        return Path(options.index).expanduser()
    # Two corpora may have one name, so the folder's name has a hash of where the corpus is.
    location = str(corpus.resolve()).encode(errors="surrogateescape")
    location_hash = hashlib.sha256(location).hexdigest()[:8]
    return harness_home() / "retrieval" / f"{_safe_file_name(corpus.name)}-{location_hash}"


def _target_file(options: RetrieveOptions, dataset: DatasetConfig) -> Path:
    """The file to write: --out, or retrieved/DATASET-RETRIEVER.jsonl."""
    if options.out:
        return Path(options.out).expanduser()
    retriever = _safe_file_name(Path(options.retriever).name)
    return Path("retrieved") / f"{_safe_file_name(dataset.name)}-{retriever}.jsonl"


def _resolve_configs(options: RetrieveOptions) -> tuple[DatasetConfig, EncoderConfig | None]:
    """Resolve the data set and the encoder that the options name; the encoder is None for BM25.

    Raises UserError, also for a --set of anything else and for a data set with its own documents.
    """
    assignments = parse_assignments(options.sets or [], "--set ")
    settable_parts = ["dataset", "encoder"]
    if options.retriever == _BM25:
        settable_parts = ["dataset"]
    for key in assignments:
        part, dot, _ = key.partition(".")
        if part not in settable_parts or not dot:
            settable = " and ".join(f"{part}.KEY" for part in settable_parts)
            raise ConfigError([f"--set {key}: only {settable} can be set here"])
    config = resolve_dataset(
        Choices(dataset=options.dataset, data=options.data, sets=assignments)
    ).value
    if config.format != "retrieved":
        raise UserError(_why_not_retrieved(config.name))
    if options.retriever == _BM25:
        return config, None
    with_encoder = {**assignments, "encoder": options.retriever}
    encoder = resolve_encoder(
        Choices(dataset=options.dataset, data=options.data, sets=with_encoder)
    ).value
    return config, encoder


def _why_not_retrieved(dataset: str) -> str:
    """Say why no documents are retrieved for a data set that has its own, and what to do."""
    reason = f"'{dataset}' brings its own documents"
    if dataset.startswith("pocket/"):
        return f"{reason}; name a data set of open questions, such as nq"
    return f"{reason}; if its questions make sense without them, add --set dataset.format=retrieved"


def _safe_file_name(name: str) -> str:
    """Make a name safe for a file: "hotpotqa/dev" -> "hotpotqa-dev"."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "file"


def _print_json(result: RetrievalResult, target: Path) -> None:
    """Print what was written to the file `target` as one line of JSON."""
    recall = result.recall
    line = {
        "file": str(target),
        **result.manifest,
        "answer_recall": recall.percentage(recall.words),
        "answer_recall_substring": recall.percentage(recall.characters),
    }
    print(json_.dumps(line))


def _print_text(result: RetrievalResult, target: Path, max_documents: int) -> None:
    """Print what was written to the file `target`, and how many questions found an answer.

    Args:
        result: The counts of the search.
        target: The file.
        max_documents: The most documents of a question.
    """
    counts = result.corpus_counts
    print(f"{target}: {result.n_with_documents} questions, at most {max_documents} documents each")
    searched = f"{counts.n_passages:,} passages of {counts.n_documents:,} documents"
    if counts.n_rows_without_text:
        searched += f"; {counts.n_rows_without_text:,} rows without text are left out"
    print(f"  {result.retriever_name} over {searched}")
    recall = result.recall
    in_words = recall.percentage(recall.words)
    in_characters = recall.percentage(recall.characters)
    if in_words is not None:
        recall_text = (
            f"{in_words:.1f} in whole words, {in_characters:.1f} as a string of characters"
        )
        print(f"  answer recall@{max_documents}: {recall_text} ({recall.questions} questions)")
    if recall.left_out:
        print(
            f"  {recall.left_out} questions have no answer of at most 10 words and are not in "
            "the recall"
        )


def _print_next_step(result: RetrievalResult, target: Path, dataset: str) -> None:
    """Warn of questions without a passage, and print the command of a run that uses the file.

    Args:
        result: The counts of the search.
        target: The file.
        dataset: The data set's name.
    """
    if result.n_without_documents:
        say(
            f"warning: no passage matches {result.n_without_documents} questions; they are answered from no "
            "text"
        )
    settings = [f"dataset.documents={target}"]
    preset_layers = presets.read("datasets", dataset)
    is_of_retrieved = any(values.get("format") == "retrieved" for _, values in preset_layers)
    if not is_of_retrieved:
        settings.append("dataset.format=retrieved")
    set_values = " ".join(settings)
    say(f"use it: harness run --method NAME --dataset {dataset} ... --set {set_values}")
