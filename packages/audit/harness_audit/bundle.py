"""Runs in one file that others can check: `harness export RUN... bundle.zip`.

    export([run, ...], Path("bundle.zip"))                 keep_texts=False: hashes in the place of the data set's texts
    with open_bundle(Path("bundle.zip")) as bundle: ...         its runs as StoredRun, read from a temporary folder

    bundle.zip
      README.txt       what this is
      bundle.json      {"format", "made_with", "runs": [...], "table": [...], "files": {name: sha256}}
      runs/<data set>/<preset>--<model>--<hash8>/      the files of docs/run-folder.md, without requests and locks

bundle.json says of each run its data set's fingerprint and licence, the versions of its scorers,
which of its files had been changed since it ended,
and for each question a digest of the answer and one of the texts (question, options, gold answers);
`table` has the numbers of `harness report`. The checksum of bundle.json covers everything else, so
it stands for the whole: `export` and `verify` print it.

Records are read, scored and written one after the other: a large run does not fit in memory.

Nothing is unpacked by the names in the file. Refused with a sentence: names that lead out of a
folder, links, passwords, the same name twice, and more than the limits below, which a small file
can stand for (a zip bomb).
"""

import hashlib
import json
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import IO, cast

import yaml

from harness.config.schema import canonical_json
from harness.errors import DataError, UserError
from harness.stats import INTERVAL_RULE
from harness.storage.checksums import changed_files
from harness.storage.file_hash import file_hash
from harness.storage.files import parse_object, replacing
from harness.storage.json_lines import json_line
from harness.storage.record_texts import text_checksum, without_texts
from harness.storage.records import StoredPiece, StoredRecord
from harness.storage.run_files import DOCUMENTS, MANIFEST, RECORDS, RUN, SUMMARY, TEXTS
from harness.storage.run_folder import StoredRun, read_run
from harness.types import VERSION
from reports.consistency import inconsistencies_outside_bundles
from reports.main_table import frame

_MAX_BYTES = 2**30
"""Bytes that all files of a bundle may have together."""
_MAX_FILES = 20_000
"""Files that a bundle may have."""
_MAX_EXPANSION = 200
"""Times that a file over 1 MiB may be larger than its part of the bundle. JSON of answers is 3 to
20."""
_ENCRYPTED_FLAG = 1  # the bit of an entry's flags
_EARLIEST_ZIP_TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can hold
_PLAIN_NAME = re.compile(r"[^/\\\x00-\x1f\x7f:]{1,255}(/[^/\\\x00-\x1f\x7f:]{1,255})*")


def write_zip(zip_file: IO[bytes], contents: Mapping[str, Iterable[bytes]]) -> None:
    """Write a zip file whose bytes depend on nothing but names, contents and the version of zlib:
    files are sorted by name, and time, system and rights of each are fixed.

    Args:
        zip_file: The file to write to, open for bytes.
        contents: Name in the zip -> pieces of the file's bytes, which are written one after the
            other.
    """
    with zipfile.ZipFile(zip_file, "w") as archive:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name, _EARLIEST_ZIP_TIME)
            entry.create_system = 3  # Unix
            entry.external_attr = (stat.S_IFREG | 0o644) << 16  # a plain file, -rw-r--r--
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=False) as file:
                file.writelines(contents[name])


def read_zip(path: Path, folder: Path) -> dict[str, Path]:
    """Unpack a zip file into a folder, where its files are named by their place in the zip, "0",
    "2", ...: never by a name from it. Entries that are folders are passed over.

    Args:
        path: The zip file.
        folder: An empty folder.

    Returns:
        Name in the zip -> the unpacked file.

    Raises:
        DataError: It is no zip file, is damaged, or must not be read (see `zip_problems`).
    """
    unpacked: dict[str, Path] = {}
    name = None  # of the file that is being unpacked, for errors
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            for problem in zip_problems(entries):  # the first of them is raised
                raise DataError.of_file(path, f"{problem}; such a bundle is not read")
            for number, entry in enumerate(entries):
                if not entry.is_dir():
                    name = entry.filename
                    unpacked[name] = folder / str(number)
                    with archive.open(entry) as packed, unpacked[name].open("wb") as file:
                        shutil.copyfileobj(packed, file)
            return unpacked
    except FileNotFoundError:
        raise DataError.of_file(path, "there is no such file") from None
    except (
        zipfile.BadZipFile,
        zlib.error,
        OSError,
        EOFError,
        ValueError,
        NotImplementedError,
    ) as error:
        problem = "no zip file that can be read"
        if name is not None:
            problem = f"'{name}' is damaged"
        raise DataError.of_file(path, f"{problem} ({error})") from None


def zip_problems(entries: Iterable[zipfile.ZipInfo]) -> Iterator[str]:
    """Yield a sentence for each reason not to read a zip file: names that lead out of a folder,
    links, passwords, the same name twice, too many files, or more bytes than the limits allow. It
    looks at the entries' headers alone."""
    names_seen: set[str] = set()
    total_bytes = 0
    for entry in entries:
        name = entry.filename
        total_bytes += entry.file_size
        is_plain_name = _PLAIN_NAME.fullmatch(name.removesuffix("/"))
        leaves_folder = {".", ".."} & set(name.split("/"))
        if not is_plain_name or leaves_folder:
            yield f"the name {name[:80]!r} leads to another place"
        unix_mode = entry.external_attr >> 16
        if stat.S_IFMT(unix_mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            yield f"'{name}' is a link or no plain file"
        if entry.flag_bits & _ENCRYPTED_FLAG:
            yield f"'{name}' has a password"
        if name.casefold() in names_seen:
            yield f"'{name}' is in it twice"
        if entry.file_size > max(2**20, _MAX_EXPANSION * entry.compress_size):
            yield f"'{name}' would be {entry.file_size:,} bytes out of {entry.compress_size:,}"
        names_seen.add(name.casefold())
        if len(names_seen) > _MAX_FILES:
            yield f"it has more than {_MAX_FILES:,} files"
    if total_bytes > _MAX_BYTES:
        yield f"its files have {total_bytes:,} bytes, more than {_MAX_BYTES:,}"


FORMAT = 3
INDEX = "bundle.json"
README = "README.txt"
TEXTS_HASH = "texts_sha256"
"""The key of a record without texts that holds the digest of its question and gold answers."""
README_TEXT = """Runs of longdoc-harness, exported so that others can check them.

    harness verify BUNDLE.zip

scores the stored answers again, without a model, and computes every number of the table again. Nothing in this file is
executed. The files below runs/ are described in docs/run-folder.md; bundle.json has their checksums.
"""
_RUN_FILE_NAMES = (RUN, MANIFEST, RECORDS, DOCUMENTS, SUMMARY, TEXTS)


@dataclass(frozen=True)
class RunEntry:
    """What bundle.json says of a run. Of a bundle that was read, values but those of `changed` and
    `misfits` may be anything.

    Args:
        texts: "whole", or "hashed" where the data set's texts are left out.
        dataset: Name of the data set.
        fingerprint: The hash of its rows.
        licence: The licence of its rows.
        scorers: Scorer -> version.
        changed: Files that had been changed since the run ended; None where nobody knows.
        misfits: What did not fit in files that the bundle leaves out, a sentence each; None of
            older bundles.
        answers: Question -> digest of the answer.
        questions: Question -> digest of question, options and gold.
    """

    texts: object
    dataset: object
    fingerprint: object
    licence: object
    scorers: Mapping[str, object]
    changed: Sequence[str] | None
    misfits: Sequence[str] | None
    answers: Mapping[str, object]
    questions: Mapping[str, object]


@dataclass(frozen=True)
class Index:
    """What the file bundle.json of a bundle holds.

    Args:
        runs: Folder in the bundle -> what is said of the run in it.
        interval_rule: The rule by which the intervals of the table were made.
        table: A row for each run, column -> value.
        files: Name of a file in the bundle -> sha256.
    """

    runs: dict[str, RunEntry]
    interval_rule: object
    table: list[dict[str, object]]
    files: dict[str, str]

    def as_json(self) -> dict[str, object]:
        """The object that is written as bundle.json: {"format": 3, "made_with": ..., "runs": {...},
        ...}."""
        return {
            "format": FORMAT,
            "made_with": f"longdoc-harness {VERSION}",
            "runs": {bundle_folder: vars(entry) for bundle_folder, entry in self.runs.items()},
            "interval_rule": self.interval_rule,
            "table": self.table,
            "files": self.files,
        }


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read.

    Args:
        path: The file.
        index: Its bundle.json.
        runs: Folder in the bundle -> run.
        sha256: Of bundle.json, or of all files' hashes if some were changed.
        changed: Names of files with other bytes than were exported.
    """

    path: Path
    index: Index
    runs: dict[str, StoredRun]
    sha256: str
    changed: list[str]


def digest(text: str | bytes) -> str:
    """sha256 in hexadecimal. A text is encoded as UTF-8; a lone surrogate in it keeps bytes of its
    own."""
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()


def answer_parts(record: StoredRecord) -> list[object]:
    """What makes the answer of a record: [prediction, type of the error, shown].

    The type is None for a question that did not fail; `shown` has a list [document, start, end,
    sources] for each text that the reader was shown.
    """
    sources = list(map(_source_of_shown_text, record.shown))
    error = record.error or {}
    return [record.prediction, error.get("type"), sources]


def _source_of_shown_text(shown_text: Mapping[str, object]) -> list[object]:
    """Where a text that was shown stands: [document id, start, end, sources], None for what it
    lacks."""
    return [shown_text.get(key) for key in ("document_id", "start", "end", "sources")]


def answer_digest(record: StoredRecord) -> str:
    """A sha256 of a record's answer (`answer_parts`) and of the texts that its reader and its
    search were shown."""
    text_hashes = list(map(_hash_of_shown_text, record.pieces()))
    return digest(canonical_json([*answer_parts(record), text_hashes]))


def _hash_of_shown_text(shown_text: StoredPiece) -> str | None:
    """The checksum of a text that was shown: computed from the text, or where a record holds none,
    the one that stands in its place; None for neither."""
    text = shown_text.get("text")
    if text:
        return text_checksum(text)
    return shown_text.get("text_sha256") or shown_text.get("sha256")


def texts_digest(record: StoredRecord) -> str | None:
    """The digest of a record's question, options and gold answers, taken together because one of
    them alone could be guessed. For a record without gold answers, whose texts were left out, it is
    the digest that the record holds in their place; None if it holds none."""
    if record.gold is None:
        return cast(str | None, record.other.get(TEXTS_HASH))
    return question_digest(record.question, record.options, record.gold)


def question_digest(
    question: str | None, options: Sequence[str] | None, gold: Mapping[str, object]
) -> str:
    """A sha256 of a question with its options and gold answers.

    Args:
        question: The text of the question.
        options: The options to choose from, if there are any.
        gold: The gold answers as in a record: {"answers": [...], "supporting": [...], "extra":
            {...}}.
    """
    return digest(canonical_json([question, options, gold]))


def export(runs: Sequence[StoredRun], path: Path, *, keep_texts: bool = True) -> str:
    """Write a bundle of `runs` to `path` and return the sha256 of its bundle.json.

    The bytes do not depend on the order of the runs or the time of the export. A run that was made
    twice becomes two runs of the bundle.

    Args:
        runs: The runs.
        path: The file to write.
        keep_texts: Whether the data set's texts go with it, where the run holds them
            (dataset.keep_texts).

    Raises:
        UserError: A run has not ended or is given twice.
        SaveError: The file cannot be written.
    """
    entries: dict[str, RunEntry] = {}
    pieces_by_name: dict[str, Iterable[bytes]] = {}
    sha256_by_name = {README: digest(README_TEXT)}
    exported_runs: list[StoredRun] = []
    for bundle_folder, run in _runs_by_bundle_folder(runs).items():
        _check_ended(run)
        with_texts = keep_texts and run.config.dataset.keep_texts
        manifest = run.manifest
        if not with_texts:
            manifest = manifest.without("first_prompts")  # prompts hold texts of the data set
        exported = replace(run, manifest=manifest)
        exported_runs.append(exported)
        try:
            content_by_name = _files_without_records(exported, with_texts=with_texts)
            entry, records_sha256 = _index_entry(run, with_texts=with_texts)
        except ValueError as error:  # a key that nobody reads may hold Infinity
            raise UserError(
                f"{run.path} holds a number that JSON has not, so it is not exported ({error})"
            ) from None
        entries[bundle_folder] = entry
        sha256_by_name[f"{bundle_folder}/{RECORDS}"] = records_sha256
        for name, data in content_by_name.items():
            sha256_by_name[f"{bundle_folder}/{name}"] = digest(data)
            pieces_by_name[f"{bundle_folder}/{name}"] = [data]
        # A generator: lines are made while the zip is written, so that they never are in memory.
        pieces_by_name[f"{bundle_folder}/{RECORDS}"] = _record_lines(run, with_texts=with_texts)
    index = Index(
        runs=entries,
        interval_rule=INTERVAL_RULE,
        table=report_rows(exported_runs),
        files=dict(sorted(sha256_by_name.items())),
    )
    index_bytes = json.dumps(index.as_json(), indent=1, allow_nan=False).encode() + b"\n"
    with replacing(path) as file:
        write_zip(file, {README: [README_TEXT.encode()], INDEX: [index_bytes], **pieces_by_name})
    return digest(index_bytes)


def _check_ended(run: StoredRun) -> None:
    """Raise UserError for a run that is still going on, was killed, or has no records."""
    ended = run.summary.state in ("finished", "interrupted", "stopped")
    if not ended or not run.records:
        raise UserError(
            f"{run.path} has not ended; run the same command again before you export it"
        )


def _runs_by_bundle_folder(runs: Sequence[StoredRun]) -> dict[str, StoredRun]:
    """Folder in the bundle -> the run that will be in it, sorted by folder and start, so that the
    order of `runs` does not matter.

    A run that was made again has the same name, so it lies in a folder of its own:
    "runs/musique/NAME", then "runs/musique.2/NAME".

    Raises UserError for two copies of one run.
    """
    runs_by_folder: dict[str, StoredRun] = {}
    for run in sorted(runs, key=_order_key):
        parent_folder, _, name = _folder_name(run).rpartition("/")
        copy_number = 1
        bundle_folder = f"{parent_folder}/{name}"
        while bundle_folder in runs_by_folder:
            if runs_by_folder[bundle_folder].manifest.id == run.manifest.id:
                raise UserError(f"{name} is given twice, from several folders; leave one out")
            copy_number += 1
            bundle_folder = f"{parent_folder}.{copy_number}/{name}"
        runs_by_folder[bundle_folder] = run
    return runs_by_folder


def _order_key(run: StoredRun) -> tuple[str, str, str]:
    """The sort key of a run in a bundle: folder, then when it was started, then its id."""
    return _folder_name(run), str(run.manifest.started), str(run.manifest.id)


def _folder_name(run: StoredRun) -> str:
    """The folder of a run in a bundle: "runs/musique/bm25--llama--0a1b2c3d"; a "/" in the name of
    the data set becomes "~"."""
    return f"runs/{run.config.dataset.name.replace('/', '~')}/{run.path.name}"


def _records_of_bundle(run: StoredRun, *, with_texts: bool) -> Iterator[StoredRecord]:
    """The records of a run as its bundle holds them.

    Args:
        run: The run.
        with_texts: Whether they keep the data set's texts; without, hashes stand in their place.
    """
    if with_texts:
        return iter(run.records_with_texts)
    return map(_with_hashes_for_texts, run.records_with_texts)


def _record_lines(run: StoredRun, *, with_texts: bool) -> Iterator[bytes]:
    """Yield the lines of records.jsonl of a run in its bundle, one a record.

    Args:
        run: The run.
        with_texts: Whether records keep the data set's texts.
    """
    for record in _records_of_bundle(run, with_texts=with_texts):
        yield json_line(record.to_json())


def _index_entry(run: StoredRun, *, with_texts: bool) -> tuple[RunEntry, str]:
    """What bundle.json says of a run, and the sha256 of its records.jsonl in the bundle.

    Args:
        run: The run.
        with_texts: Whether records keep the data set's texts.

    Raises:
        ValueError: A record holds what JSON cannot hold, such as NaN.
    """
    dataset = run.config.dataset
    records_sha256 = hashlib.sha256()
    answer_digests: dict[str, str] = {}
    question_digests: dict[str, str | None] = {}
    for record in _records_of_bundle(run, with_texts=with_texts):
        records_sha256.update(json_line(record.to_json()))
        answer_digests[record.question_id] = answer_digest(record)
        question_digests[record.question_id] = texts_digest(record)
    texts = "hashed"
    if with_texts:
        texts = "whole"
    entry = RunEntry(
        texts=texts,
        dataset=dataset.name,
        fingerprint=run.manifest.dataset.fingerprint,
        licence=dataset.licence,
        scorers=run.manifest.scorers,
        changed=changed_files(run.path, run.manifest, run.summary),
        misfits=list(inconsistencies_outside_bundles(run)),
        answers=answer_digests,
        questions=question_digests,
    )
    return entry, records_sha256.hexdigest()


def _files_without_records(run: StoredRun, *, with_texts: bool) -> dict[str, bytes]:
    """The files of a run in its bundle but for the records: name -> content.

    Args:
        run: The run.
        with_texts: Whether the data set's texts go with it, which adds texts.jsonl.
    """
    text_by_sha256 = run.texts(run.records_with_texts)
    run_yaml = {"config": run.config.to_json(), "origins": run.origins}
    content_by_name = {
        RUN: yaml.safe_dump(run_yaml, sort_keys=False, allow_unicode=True).encode(),
        MANIFEST: _json_bytes(run.manifest.to_json()),
        DOCUMENTS: b"".join(json_line(line.to_json()) for line in run.index_lines),
        SUMMARY: _json_bytes(run.summary.to_json()),
    }
    if with_texts and text_by_sha256:
        lines = b"".join(
            json_line({"sha256": sha256, "text": text_by_sha256[sha256]})
            for sha256 in sorted(text_by_sha256)
        )
        content_by_name[TEXTS] = lines
    return content_by_name


def _with_hashes_for_texts(record: StoredRecord) -> StoredRecord:
    """A copy of a record with hashes in the place of the data set's texts: one for each text that
    was shown to reader or search (a piece), and one for question, options and gold answers
    together.

    The hash of a shown text is in "sha256": a bundle has no texts.jsonl, a line of which
    "text_sha256" would name.
    """
    hashed_record = without_texts(record)
    for whole_piece, hashed_piece in zip(record.pieces(), hashed_record.pieces(), strict=True):
        text_hash = _hash_of_shown_text(whole_piece)
        if text_hash:
            hashed_piece["sha256"] = text_hash  # changes hashed_record, whose piece this is
    digest_of_texts = texts_digest(record)
    if not digest_of_texts:
        return hashed_record
    return hashed_record.with_other(TEXTS_HASH, digest_of_texts)


def _json_bytes(value: Mapping[str, object]) -> bytes:
    """A mapping as the content of a JSON file. Raises ValueError for NaN and infinity."""
    return json.dumps(value, indent=2, allow_nan=False).encode() + b"\n"


def report_rows(runs: Sequence[StoredRun]) -> list[dict[str, object]]:
    """The numbers of `harness report` for these runs, as JSON values: for each run, in their order,
    a row column -> value, with None for a value that there is not. The columns notes and scorers
    are left out."""
    numbers = frame(runs).drop(columns=["notes", "scorers"], errors="ignore")
    rows: list[dict[str, object]] = json.loads(
        numbers.to_json(orient="records", double_precision=15)
    )
    return rows


@contextmanager
def open_bundle(path: Path) -> Iterator[Bundle]:
    """Unpack the bundle at `path` into a temporary folder, which is there as long as the `with`
    block, and give its index, its runs, and which files have other checksums than bundle.json says.

    The bundle's checksum is that of bundle.json, which holds the checksums of all other files; or,
    where some were changed, a hash of the files as they are.

    Raises DataError for what is no bundle, or has an unreadable run.
    """
    with tempfile.TemporaryDirectory(prefix="harness-bundle-") as temporary:
        unpacked_folder = Path(temporary, "files")
        runs_folder = Path(temporary, "runs")
        unpacked_folder.mkdir()
        unpacked = read_zip(path, unpacked_folder)
        if INDEX not in unpacked:
            raise DataError.of_file(path, f"no bundle of this program: it has no {INDEX}")
        index = _parse_index(path, unpacked[INDEX])
        hashes = {name: file_hash(file) for name, file in sorted(unpacked.items())}
        changed_names = _changed_names(index.files, hashes)
        sha256 = hashes[INDEX]
        if changed_names:
            # The hash of bundle.json would be that of the files before the change.
            sha256 = digest(json.dumps(hashes))
        runs: dict[str, StoredRun] = {}
        for bundle_folder in index.runs:
            run_folder = _move_unpacked_run(path, bundle_folder, unpacked, runs_folder)
            try:
                runs[bundle_folder] = _read_run_and_check_texts(run_folder, bundle_folder)
            except UserError as error:
                # Users do not know the temporary folder.
                sentence = str(error).replace(f"{runs_folder}/", "")
                raise DataError.of_file(path, sentence) from None
        yield Bundle(path=path, index=index, runs=runs, sha256=sha256, changed=changed_names)


def _changed_names(
    exported_hashes: Mapping[str, str], present_hashes: Mapping[str, str]
) -> list[str]:
    """The names of files that are missing, new, or not as they were exported; sorted, bundle.json
    left out.

    Args:
        exported_hashes: Name -> checksum in bundle.json.
        present_hashes: Name -> checksum of the file that is there.
    """
    changed_names: list[str] = []
    for name in sorted({*exported_hashes, *present_hashes}):
        is_missing = name not in present_hashes
        if name != INDEX and (is_missing or present_hashes[name] != exported_hashes.get(name)):
            changed_names.append(name)
    return changed_names


def _move_unpacked_run(
    path: Path, bundle_folder: str, unpacked: Mapping[str, Path], runs_folder: Path
) -> Path:
    """Move the unpacked files of one run into a folder of its own, under their usual names; returns
    that folder.

    Args:
        path: The bundle, to be named in errors.
        bundle_folder: The run's folder in the bundle, "runs/DATASET/NAME".
        unpacked: Name in the bundle -> unpacked file.
        runs_folder: Where the run's folder is made, as DATASET/NAME.

    Raises:
        DataError: `bundle_folder` is no folder of a run, or has no run.yaml.
    """
    _, *dataset_and_run = bundle_folder.split("/")
    is_run_folder = len(dataset_and_run) == 2 and bundle_folder.startswith("runs/")
    if not is_run_folder or f"{bundle_folder}/{RUN}" not in unpacked:
        raise DataError.of_file(path, f"the run '{bundle_folder[:80]}' is not in it")
    run_folder = runs_folder.joinpath(*dataset_and_run)
    run_folder.mkdir(parents=True)
    for name in _RUN_FILE_NAMES:
        file = unpacked.get(f"{bundle_folder}/{name}")
        if file is not None:
            file.rename(run_folder / name)
    return run_folder


def _read_run_and_check_texts(run_folder: Path, bundle_folder: str) -> StoredRun:
    """Read an unpacked run, and compare its texts with their checksums.

    Args:
        run_folder: The run's folder on disk.
        bundle_folder: The run's folder in the bundle, to be named in errors.

    Raises:
        UserError: The run cannot be read, a text does not fit its checksum, or there is no record.
    """
    run = read_run(run_folder, hold="nothing")
    for _ in run.stream_texts(run.records):  # raises for a text that does not fit its checksum
        pass
    if not run.records:
        raise UserError(f"{bundle_folder} has no record")
    return run


def _parse_index(path: Path, file: Path) -> Index:
    """Parse and check bundle.json.

    Args:
        path: The bundle, to be named in errors.
        file: bundle.json, unpacked.

    Raises:
        DataError: It is damaged, of another format, or not of this program.
    """
    try:
        content = parse_object(file.read_bytes())
    except ValueError as error:
        raise DataError.of_file(path, f"{INDEX} is damaged ({error})") from None
    wrong_form = f"{INDEX} is not of this program"
    type_by_key = {"format": int, "runs": dict, "table": list, "files": dict}
    for name, expected_type in type_by_key.items():
        if not isinstance(content.get(name), expected_type):
            raise DataError(path, None, name, wrong_form)
    if content["format"] != FORMAT:
        problem = f"{content['format']}, and this version reads {FORMAT}; export it again"
        raise DataError(path, None, "format", problem)
    field_names = [each.name for each in fields(RunEntry)]
    runs: dict[str, RunEntry] = {}
    for bundle_folder, values in content["runs"].items():
        if not _has_form_of_run_entry(values):
            raise DataError(path, None, bundle_folder[:80], wrong_form)
        # A key that an older version did not write becomes None.
        runs[bundle_folder] = RunEntry(**{name: values.get(name) for name in field_names})
    if not all(isinstance(row, dict) for row in content["table"]):
        raise DataError(path, None, "table", wrong_form)
    return Index(
        runs=runs,
        interval_rule=content.get("interval_rule"),
        table=content["table"],
        files=content["files"],
    )


def _has_form_of_run_entry(values: object) -> bool:
    """Whether what bundle.json has for a run has the form of a `RunEntry`: "answers", "questions"
    and "scorers" are objects, and "misfits", if there, is a list of texts."""
    if not isinstance(values, dict):
        return False
    for key in ("answers", "questions", "scorers"):
        if not isinstance(values.get(key), dict):
            return False
    misfits = values.get("misfits") or []
    return isinstance(misfits, list) and all(isinstance(sentence, str) for sentence in misfits)
