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

_MOST_BYTES = 2**30
"""Bytes that all files of a bundle may have together."""
_MOST_FILES = 20_000
"""Files that a bundle may have."""
_MOST_EXPANSION = 200
"""Times that a file over 1 MiB may be larger than its part of the bundle. JSON of answers is 3 to
20."""
_ENCRYPTED = 1  # the bit of an entry's flags
_TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can hold
_NAME = re.compile(r"[^/\\\x00-\x1f\x7f:]{1,255}(/[^/\\\x00-\x1f\x7f:]{1,255})*")


def write_zip(held: IO[bytes], files: Mapping[str, Iterable[bytes]]) -> None:
    """Write a zip file whose bytes depend on nothing but names, contents and the version of zlib.

    Args:
        held: The file to write to, open for bytes.
        files: Name in the zip -> pieces of the file's bytes, which are written one after the other.
    """
    with zipfile.ZipFile(held, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=False) as file:
                file.writelines(files[name])


def read_zip(path: Path, folder: Path) -> dict[str, Path]:
    """Unpack a zip file into a folder, where its files are named "0", "1", ...: never by a name
    from the zip.

    Args:
        path: The zip file.
        folder: An empty folder.

    Returns:
        Name in the zip -> the unpacked file.

    Raises:
        DataError: It is no zip file, is damaged, or must not be read (see `zip_problems`).
    """
    files: dict[str, Path] = {}
    name = None
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            for problem in zip_problems(entries):
                raise DataError.of_file(path, f"{problem}; such a bundle is not read")
            for number, entry in enumerate(entries):
                if not entry.is_dir():
                    name = entry.filename
                    files[name] = folder / str(number)
                    with archive.open(entry) as packed, files[name].open("wb") as file:
                        shutil.copyfileobj(packed, file)
            return files
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
        what = "no zip file that can be read"
        if name is not None:
            what = f"'{name}' is damaged"
        raise DataError.of_file(path, f"{what} ({error})") from None


def zip_problems(entries: Iterable[zipfile.ZipInfo]) -> Iterator[str]:
    """Yield a sentence for each reason not to read a zip file: names that lead out of a folder,
    links, passwords, the same name twice, too many files, or more bytes than the limits allow. It
    looks at the entries' headers alone."""
    seen: set[str] = set()
    total = 0
    for entry in entries:
        name = entry.filename
        total += entry.file_size
        is_plain_name = _NAME.fullmatch(name.removesuffix("/"))
        leaves_folder = {".", ".."} & set(name.split("/"))
        if not is_plain_name or leaves_folder:
            yield f"the name {name[:80]!r} leads to another place"
        unix_mode = entry.external_attr >> 16
        if stat.S_IFMT(unix_mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            yield f"'{name}' is a link or no plain file"
        if entry.flag_bits & _ENCRYPTED:
            yield f"'{name}' has a password"
        if name.casefold() in seen:
            yield f"'{name}' is in it twice"
        if entry.file_size > max(2**20, _MOST_EXPANSION * entry.compress_size):
            yield f"'{name}' would be {entry.file_size:,} bytes out of {entry.compress_size:,}"
        seen.add(name.casefold())
        if len(seen) > _MOST_FILES:
            yield f"it has more than {_MOST_FILES:,} files"
    if total > _MOST_BYTES:
        yield f"its files have {total:,} bytes, more than {_MOST_BYTES:,}"


FORMAT = 3
INDEX = "bundle.json"
README = "README.txt"
TEXTS_HASH = "texts_sha256"
"""The key of a record without texts that holds the digest of its question and gold answers."""
_README = """Runs of longdoc-harness, exported so that others can check them.

    harness verify BUNDLE.zip

scores the stored answers again, without a model, and computes every number of the table again. Nothing in this file is
executed. The files below runs/ are described in docs/run-folder.md; bundle.json has their checksums.
"""
_FILES = (RUN, MANIFEST, RECORDS, DOCUMENTS, SUMMARY, TEXTS)


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
            "runs": {place: vars(entry) for place, entry in self.runs.items()},
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


def answer_parts(row: StoredRecord) -> list[object]:
    """What makes the answer of a record: [prediction, type of the error, shown].

    The type is None for a question that did not fail; `shown` has a list [document, start, end,
    sources] for each text that the reader was shown.
    """
    places = list(map(_place_of_piece, row.shown))
    error = row.error or {}
    return [row.prediction, error.get("type"), places]


def _place_of_piece(piece: Mapping[str, object]) -> list[object]:
    """Where a text that was shown stands: [document id, start, end, sources], None for what it
    lacks."""
    return [piece.get(key) for key in ("document_id", "start", "end", "sources")]


def answer_digest(row: StoredRecord) -> str:
    """A sha256 of a record's answer (`answer_parts`) and of the texts that its reader and its
    search were shown."""
    hashes = list(map(_text_hash, row.pieces()))
    return digest(canonical_json([*answer_parts(row), hashes]))


def _text_hash(piece: StoredPiece) -> str | None:
    """The checksum of a text that was shown: computed from the text, or where a record holds none,
    the one that stands in its place; None for neither."""
    text = piece.get("text")
    if text:
        return text_checksum(text)
    return piece.get("text_sha256") or piece.get("sha256")


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
    files: dict[str, Iterable[bytes]] = {}
    digests = {README: digest(_README)}
    shown: list[StoredRun] = []
    for place, run in _runs_by_folder(runs).items():
        _check_ended(run)
        keep = keep_texts and run.config.dataset.keep_texts
        manifest = run.manifest
        if not keep:
            manifest = manifest.without("first_prompts")
        exported = replace(run, manifest=manifest)
        shown.append(exported)
        try:
            content = _run_files(exported, keep)
            entries[place], digests[f"{place}/{RECORDS}"] = _index_entry(run, keep)
        except ValueError as error:  # a key that nobody reads may hold Infinity
            raise UserError(
                f"{run.path} holds a number that JSON has not, so it is not exported ({error})"
            ) from None
        for name, data in content.items():
            digests[f"{place}/{name}"] = digest(data)
            files[f"{place}/{name}"] = [data]
        files[f"{place}/{RECORDS}"] = _record_lines(run, keep)
    index = Index(entries, INTERVAL_RULE, table(shown), dict(sorted(digests.items())))
    listed = json.dumps(index.as_json(), indent=1, allow_nan=False).encode() + b"\n"
    with replacing(path) as file:
        write_zip(file, {README: [_README.encode()], INDEX: [listed], **files})
    return digest(listed)


def _check_ended(run: StoredRun) -> None:
    """Raise UserError for a run that is still going on, was killed, or has no records."""
    ended = run.summary.state in ("finished", "interrupted", "stopped")
    if not ended or not run.records:
        raise UserError(
            f"{run.path} has not ended; run the same command again before you export it"
        )


def _runs_by_folder(runs: Sequence[StoredRun]) -> dict[str, StoredRun]:
    """Folder in the bundle -> the run that will be in it, in an order that does not depend on that
    of `runs`.

    A run that was made again has the same name, so it lies in a folder of its own:
    "runs/musique/NAME", then "runs/musique.2/NAME".

    Raises UserError for two copies of one run.
    """
    found: dict[str, StoredRun] = {}
    for run in sorted(runs, key=_order_key):
        folder, _, name = _folder_name(run).rpartition("/")
        number = 1
        place = f"{folder}/{name}"
        while place in found:
            if found[place].manifest.id == run.manifest.id:
                raise UserError(f"{name} is given twice, from several folders; leave one out")
            number += 1
            place = f"{folder}.{number}/{name}"
        found[place] = run
    return found


def _order_key(run: StoredRun) -> tuple[str, str, str]:
    """The sort key of a run in a bundle: folder, then when it was started, then its id."""
    return _folder_name(run), str(run.manifest.started), str(run.manifest.id)


def _folder_name(run: StoredRun) -> str:
    """The folder of a run in a bundle: "runs/musique/bm25--llama--0a1b2c3d"; a "/" in the name of
    the data set becomes "~"."""
    return f"runs/{run.config.dataset.name.replace('/', '~')}/{run.path.name}"


def _exported_records(run: StoredRun, keep: bool) -> Iterator[StoredRecord]:
    """The records of a run as its bundle holds them.

    Args:
        run: The run.
        keep: Whether they keep the data set's texts; without, hashes stand in their place.
    """
    if keep:
        return iter(run.records_with_texts)
    return map(_hash_texts, run.records_with_texts)


def _record_lines(run: StoredRun, keep: bool) -> Iterator[bytes]:
    """Yield the lines of records.jsonl of a run in its bundle, one a record.

    Args:
        run: The run.
        keep: Whether records keep the data set's texts.
    """
    for record in _exported_records(run, keep):
        yield json_line(record.to_json())


def _index_entry(run: StoredRun, keep: bool) -> tuple[RunEntry, str]:
    """What bundle.json says of a run, and the sha256 of its records.jsonl in the bundle.

    Args:
        run: The run.
        keep: Whether records keep the data set's texts.

    Raises:
        ValueError: A record holds what JSON cannot hold, such as NaN.
    """
    dataset = run.config.dataset
    all_records = hashlib.sha256()
    answers: dict[str, str] = {}
    questions: dict[str, str | None] = {}
    for record in _exported_records(run, keep):
        all_records.update(json_line(record.to_json()))
        answers[record.question_id] = answer_digest(record)
        questions[record.question_id] = texts_digest(record)
    texts = "hashed"
    if keep:
        texts = "whole"
    entry = RunEntry(
        texts=texts,
        dataset=dataset.name,
        fingerprint=run.manifest.dataset.fingerprint,
        licence=dataset.licence,
        scorers=run.manifest.scorers,
        changed=changed_files(run.path, run.manifest, run.summary),
        misfits=list(inconsistencies_outside_bundles(run)),
        answers=answers,
        questions=questions,
    )
    return entry, all_records.hexdigest()


def _run_files(run: StoredRun, keep: bool) -> dict[str, bytes]:
    """The files of a run in its bundle but for the records: name -> content.

    Args:
        run: The run.
        keep: Whether the data set's texts go with it, which adds texts.jsonl.
    """
    texts = run.texts(run.records_with_texts)
    described = {"config": run.config.to_json(), "origins": run.origins}
    files = {
        RUN: yaml.safe_dump(described, sort_keys=False, allow_unicode=True).encode(),
        MANIFEST: _json_bytes(run.manifest.to_json()),
        DOCUMENTS: b"".join(json_line(line.to_json()) for line in run.index_lines),
        SUMMARY: _json_bytes(run.summary.to_json()),
    }
    if keep and texts:
        lines = b"".join(json_line({"sha256": key, "text": texts[key]}) for key in sorted(texts))
        files[TEXTS] = lines
    return files


def _hash_texts(record: StoredRecord) -> StoredRecord:
    """A copy of a record with hashes in the place of the data set's texts: one for each text that
    was shown, and one for question, options and gold answers together.

    The hash of a shown text is in "sha256": a bundle has no texts.jsonl, a line of which
    "text_sha256" would name.
    """
    bare = without_texts(record)
    for whole_piece, bare_piece in zip(record.pieces(), bare.pieces(), strict=True):
        text_hash = _text_hash(whole_piece)
        if text_hash:
            bare_piece["sha256"] = text_hash
    hashed = texts_digest(record)
    if not hashed:
        return bare
    return bare.with_other(TEXTS_HASH, hashed)


def _json_bytes(value: Mapping[str, object]) -> bytes:
    """A mapping as the content of a JSON file. Raises ValueError for NaN and infinity."""
    return json.dumps(value, indent=2, allow_nan=False).encode() + b"\n"


def table(runs: Sequence[StoredRun]) -> list[dict[str, object]]:
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

    Raises DataError for what is no bundle, or has an unreadable run.
    """
    with tempfile.TemporaryDirectory(prefix="harness-bundle-") as temporary:
        parts = Path(temporary, "files")
        folder = Path(temporary, "runs")
        parts.mkdir()
        files = read_zip(path, parts)
        if INDEX not in files:
            raise DataError.of_file(path, f"no bundle of this program: it has no {INDEX}")
        index = _parse_index(path, files[INDEX])
        hashes = {name: file_hash(file) for name, file in sorted(files.items())}
        changed = _changed_names(index.files, hashes)
        sha256 = hashes[INDEX]
        if changed:
            # The hash of bundle.json would be that of what was exported.
            sha256 = digest(json.dumps(hashes))
        runs: dict[str, StoredRun] = {}
        for place in index.runs:
            root = _unpacked_run(path, place, files, folder)
            try:
                runs[place] = _read_whole(root, place)
            except UserError as error:
                raise DataError.of_file(path, str(error).replace(f"{folder}/", "")) from None
        yield Bundle(path, index, runs, sha256, changed)


def _changed_names(listed: Mapping[str, str], hashes: Mapping[str, str]) -> list[str]:
    """The names of files that are missing, new, or not as they were exported; sorted, bundle.json
    left out.

    Args:
        listed: Name -> checksum in bundle.json.
        hashes: Name -> checksum of the file that is there.
    """
    changed: list[str] = []
    for name in sorted({*listed, *hashes}):
        is_missing = name not in hashes
        if name != INDEX and (is_missing or hashes[name] != listed.get(name)):
            changed.append(name)
    return changed


def _unpacked_run(path: Path, place: str, files: Mapping[str, Path], folder: Path) -> Path:
    """Move the unpacked files of one run into a folder of its own, under their usual names; returns
    that folder.

    Args:
        path: The bundle, to be named in errors.
        place: The run's folder in the bundle, "runs/DATASET/NAME".
        files: Name in the bundle -> unpacked file.
        folder: Where the run's folder is made, as DATASET/NAME.

    Raises:
        DataError: `place` is no folder of a run, or has no run.yaml.
    """
    _, *names = place.split("/")
    if len(names) != 2 or not place.startswith("runs/") or f"{place}/{RUN}" not in files:
        raise DataError.of_file(path, f"the run '{place[:80]}' is not in it")
    root = folder.joinpath(*names)
    root.mkdir(parents=True)
    for name in _FILES:
        file = files.get(f"{place}/{name}")
        if file is not None:
            file.rename(root / name)
    return root


def _read_whole(root: Path, place: str) -> StoredRun:
    """Read an unpacked run, and compare its texts with their checksums.

    Args:
        root: The run's folder on disk.
        place: The run's folder in the bundle, to be named in errors.

    Raises:
        UserError: The run cannot be read, a text does not fit its checksum, or there is no record.
    """
    run = read_run(root, hold="nothing")
    for _ in run.stream_texts(run.records):  # raises for a text that does not fit its checksum
        pass
    if not run.records:
        raise UserError(f"{place} has no record")
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
        held = parse_object(file.read_bytes())
    except ValueError as error:
        raise DataError.of_file(path, f"{INDEX} is damaged ({error})") from None
    foreign = f"{INDEX} is not of this program"
    types = {"format": int, "runs": dict, "table": list, "files": dict}
    for name, kind in types.items():
        if not isinstance(held.get(name), kind):
            raise DataError(path, None, name, foreign)
    if held["format"] != FORMAT:
        problem = f"{held['format']}, and this version reads {FORMAT}; export it again"
        raise DataError(path, None, "format", problem)
    names = [each.name for each in fields(RunEntry)]
    runs: dict[str, RunEntry] = {}
    for place, values in held["runs"].items():
        if not _is_entry(values):
            raise DataError(path, None, place[:80], foreign)
        runs[place] = RunEntry(**{name: values.get(name) for name in names})
    if not all(isinstance(row, dict) for row in held["table"]):
        raise DataError(path, None, "table", foreign)
    return Index(runs, held.get("interval_rule"), held["table"], held["files"])


def _is_entry(values: object) -> bool:
    """Whether what bundle.json has for a run has the form of a `RunEntry`: "answers", "questions"
    and "scorers" are objects, and "misfits", if there, is a list of texts."""
    if not isinstance(values, dict):
        return False
    for part in ("answers", "questions", "scorers"):
        if not isinstance(values.get(part), dict):
            return False
    misfits = values.get("misfits") or []
    return isinstance(misfits, list) and all(isinstance(one, str) for one in misfits)
