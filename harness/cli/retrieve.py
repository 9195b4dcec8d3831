"""`harness retrieve --dataset NAME --corpus PATH`: write the documents that a retriever returns for
each question.

exit 0 written · 2 a mistake, nothing was written · 3 something could not be saved · 130 interrupted
"""

from __future__ import annotations

import hashlib
import json as json_
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from harness.cli.command import choice, output, setting
from harness.cli.options import Json
from harness.cli.output import say
from harness.cli.stage_progress import stage_progress
from harness.cli.stopping import until_interrupted
from harness.config import presets
from harness.config.yaml_tree import parse_assignments
from harness.errors import ConfigError, UserError
from harness.storage.files import check_home, home

if TYPE_CHECKING:
    from harness.config.schema import DatasetConfig, EncoderConfig
    from harness.retrieval.retrieval_run import RetrievalResult

_BM25 = "bm25"


def retrieve(
    dataset: Annotated[
        str,
        choice(
            "--dataset -d NAME",
            "Data set of open questions (nq, triviaqa, popqa ...).",
            complete="datasets",
        ),
    ],
    corpus: Annotated[
        str,
        choice(
            "--corpus PATH",
            "Wikipedia in FlashRAG's or KILT's form (JSON lines) or DPR's table, also gzipped; or "
            "a folder of pages.",
        ),
    ],
    retriever: Annotated[
        str,
        choice(
            "--retriever NAME",
            "bm25, or an encoder (harness list encoders), e.g. e5.",
            complete="encoders",
        ),
    ] = _BM25,
    data: Annotated[
        str | None, choice("--data PATH", "Local file or folder of questions instead of the hub.")
    ] = None,
    limit: Annotated[
        int | None, choice("--limit N", "Only the first N questions.", "all", min=1)
    ] = None,
    top: Annotated[int, setting("--top N", "Documents of each question.", min=1)] = 8,
    words: Annotated[
        int, setting("--words N", "Words of a passage, where pages are cut into passages.", min=1)
    ] = 100,
    sets: Annotated[
        list[str] | None,
        setting(
            "--set KEY=VALUE ...",
            "Any setting of data set or encoder: dataset.split=dev encoder.device=cuda.",
        ),
    ] = None,
    index: Annotated[
        str | None,
        output("--index DIR", "Folder of the corpus's indexes.", "retrieval/ in HARNESS_HOME"),
    ] = None,
    out: Annotated[
        str | None, output("--out FILE", "File to write.", "retrieved/DATASET-RETRIEVER.jsonl")
    ] = None,
    json: Json = False,
) -> int:
    """Retrieve documents of a corpus for the questions of a data set.

    Writes the file that dataset.documents names in a run. Ranks passages by BM25 or an encoder; a
    document's score is that of its best passage. Indexes are kept, and the same command resumes one
    that was interrupted. Right answers are used for the printed recall only.
    """
    from harness.datasets.retrieved import load_questions
    from harness.retrieval.retrieval_run import Request, check_packages
    from harness.retrieval.retrieval_run import retrieve as run

    config, encoder = _resolve_configs(dataset, data, retriever, sets or [])
    check_packages(encoder)
    path = Path(corpus).expanduser()
    if not path.exists():
        raise UserError(f"--corpus {corpus}: no such file or folder")
    check_home()
    if path.is_dir():
        from harness.retrieval.corpus import file_of_folder

        path, notes = file_of_folder(path, home() / "retrieval")
        for note in notes:
            say(f"warning: {note}")
    # The corpus's name, and a mark of where it is: two dumps may have one name.
    path_hash = hashlib.sha256(str(path.resolve()).encode(errors="surrogateescape")).hexdigest()[:8]
    place = (
        Path(index).expanduser()
        if index
        else home() / "retrieval" / f"{_safe_file_name(path.name)}-{path_hash}"
    )
    name = f"{_safe_file_name(config.name)}-{_safe_file_name(Path(retriever).name)}.jsonl"
    target = Path(out).expanduser() if out else Path("retrieved") / name
    rows = load_questions(config, limit)
    source = {
        "name": config.name,
        "split": config.split,
        "data": Path(data).name if data else config.hub,
    }

    def work() -> int:
        with stage_progress() as progress:
            written = run(Request(path, encoder, top, words, place, target), rows, source, progress)
        _print_result(written, target, top, config, json=json)
        return 0

    return until_interrupted(work, "interrupted; finished parts of the index are kept")


def _resolve_configs(
    dataset: str, data: str | None, retriever: str, sets: list[str]
) -> tuple[DatasetConfig, EncoderConfig | None]:
    """The data set and the encoder (None for BM25) that the options name; sets: of --set. Raises
    UserError."""
    from harness.config.resolve import resolved

    assignments = parse_assignments(sets, "--set ")
    parts = ("dataset",) if retriever == _BM25 else ("dataset", "encoder")
    if foreign := [
        key for key in assignments if key.partition(".")[0] not in parts or "." not in key
    ]:
        raise ConfigError(
            [f"--set {foreign[0]}: only {'.KEY and '.join(parts)}.KEY can be set here"]
        )
    config = resolved("datasets", dataset=dataset, data=data, sets=assignments)
    if config.format != "retrieved":
        reason = f"'{config.name}' brings its own documents"
        if config.name.startswith("pocket/"):
            raise UserError(f"{reason}; name a data set of open questions, such as nq")
        raise UserError(
            f"{reason}; if its questions make sense without them, add --set "
            "dataset.format=retrieved"
        )
    if retriever == _BM25:
        return config, None
    return config, resolved(
        "encoders", dataset=dataset, data=data, sets={**assignments, "encoder": retriever}
    )


def _safe_file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "file"


def _print_result(
    written: RetrievalResult, target: Path, top: int, config: DatasetConfig, *, json: bool
) -> None:
    """Print what was written to `target`, its recall of answers in `top` documents, and how a run
    uses the file."""
    recall, corpus = written.recall, written.facts["corpus"]
    words, characters = recall.share(recall.words), recall.share(recall.characters)
    if json:
        points = {"answer_recall": words, "answer_recall_substring": characters}
        print(json_.dumps({"file": str(target), **written.facts, **points}))
    else:
        searched = f"{corpus['passages']:,} passages of {corpus['documents']:,} documents"
        print(f"{target}: {written.facts['questions']} questions, at most {top} documents each")
        blank = (
            f"; {corpus['without text']:,} rows without text are left out"
            if corpus.get("without text")
            else ""
        )
        print(f"  {written.facts['index']['retriever']} over {searched}{blank}")
        if words is not None:
            shares = f"{words:.1f} in whole words, {characters:.1f} as a string of characters"
            print(f"  answer recall@{top}: {shares} ({recall.questions} questions)")
        if recall.left_out:
            print(
                f"  {recall.left_out} questions have no answer of at most 10 words and are not in "
                "the recall"
            )
    if written.without:
        say(
            f"warning: no passage matches {written.without} questions; they are answered from no "
            "text"
        )
    # A run must be told the format unless the preset says it.
    in_preset = any(
        values.get("format") == "retrieved" for _, values in presets.read("datasets", config.name)
    )
    use = f"harness run --method NAME --dataset {config.name} ... --set dataset.documents={target}"
    use += "" if in_preset else " dataset.format=retrieved"
    say(f"use it: {use}")
