"""File formats: the same rows whatever the container, and one clear sentence for a file that cannot
be read."""

import gzip
import io
import json
import sys
import zipfile

import pytest

from harness.config import registry
from harness.datasets import load
from harness.datasets.files import JsonText
from harness.errors import CannotRun, ConfigError, DataError, UnknownName, UserError
from tests.datasets.support import (
    check_refused,
    columns,
    config,
    hotpot,
    musique,
    parquet,
    write_lines,
)


def _list(path, rows):
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def _pretty_list(path, rows):
    path.write_text("\n " + json.dumps(rows, indent=1) + "\n\n", encoding="utf-8")
    return path


def _zipped(write):
    """The file that `write` makes, packed."""

    def packed(path, rows):
        path.write_bytes(gzip.compress(write(path, rows).read_bytes()))
        return path

    return packed


def _parquet(path, rows):
    path.write_bytes(parquet(rows))
    return path


def _with_mark(path, rows):
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(["", *lines, " ", ""]).encode())
    return path


def _archive(path, rows):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data/", "")
        archive.writestr("__MACOSX/data/r.jsonl", "no row")
        archive.writestr("data/r.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return path


def _archive_of_zipped(path, rows):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("r.json.gz", gzip.compress(json.dumps(rows).encode()))
    return path


CONTAINERS = [
    ("r.jsonl", write_lines),
    ("r.json", write_lines),
    ("r.json", _list),
    ("r.json", _pretty_list),
    ("r.jsonl.gz", _zipped(write_lines)),
    ("r.json.gz", _zipped(_list)),
    ("r.parquet", _parquet),
    ("r.jsonl", _with_mark),
    ("r.zip", _archive),
    ("r.zip", _archive_of_zipped),
]


@pytest.mark.parametrize(("name", "write"), CONTAINERS)
def test_same_rows_same_fingerprint(tmp_path, name, write):
    rows = [
        musique(1, question="Où est née Ada\u2028Velmark \u2013 水?"),
        musique(2),
        musique(3, answerable=False),
    ]
    plain = load(config(data=str(write_lines(tmp_path / "plain.jsonl", rows))))
    data = load(config(data=str(write(tmp_path / name, rows))))
    assert data.fingerprint == plain.fingerprint
    assert data.examples == plain.examples
    assert dict(data.documents) == dict(plain.documents)
    assert data.skipped == {"unanswerable (answerable is false)": 1}
    assert data.source.startswith(name)
    assert data.revision is None


@pytest.mark.parametrize(("name", "write"), [("r.parquet", _parquet), ("r.jsonl", write_lines)])
def test_hotpot_hub_columns_equal_the_official_file(tmp_path, name, write):
    rows = [hotpot(1), hotpot(2)]
    official = load(config("hotpotqa", data=str(_list(tmp_path / "official.json", rows))))
    hub = load(config("hotpotqa", data=str(write(tmp_path / name, [columns(row) for row in rows]))))
    assert hub.fingerprint == official.fingerprint


def test_fingerprint_sees_every_row_and_field_but_not_limit_or_name(tmp_path):
    rows = [musique(n) for n in range(5)]
    whole = load(config(data=str(write_lines(tmp_path / "a.jsonl", rows))))
    part = load(config(data=str(write_lines(tmp_path / "b.jsonl", rows)), name="other"), limit=2)
    assert part.fingerprint == whole.fingerprint
    assert part.examples == whole.examples[:2]
    assert set(part.documents) == {"2hop__0", "2hop__1"}
    seen = {whole.fingerprint}
    changes = [{"answer": "Bo"}, {"question": "Why?"}, {"answer_aliases": []}, {"id": "2hop__9"}]
    for change in changes:
        changed = [*rows[:4], {**rows[4], **change}]
        seen.add(load(config(data=str(write_lines(tmp_path / "c.jsonl", changed)))).fingerprint)
    seen.add(load(config(data=str(write_lines(tmp_path / "c.jsonl", rows[::-1])))).fingerprint)
    seen.add(load(config(data=str(write_lines(tmp_path / "c.jsonl", rows[:4])))).fingerprint)
    assert len(seen) == 7


BROKEN = [
    (
        "r.jsonl",
        b'\n\n{"id": "a" "b"}\n',
        "r.jsonl, line 3: broken JSON: Expecting ',' delimiter (column 12)",
    ),
    (
        "r.jsonl",
        b'\n\n{"a": "b\n',
        "r.jsonl, line 3: broken JSON: Unterminated string starting at (column 7)",
    ),
    ("r.jsonl", b'"text"\n', "r.jsonl, line 1: a row should be a JSON object, is a string"),
    ("r.jsonl", b'{"a": NaN}\n', "r.jsonl, line 1: broken JSON: NaN is not a JSON value"),
    (
        "r.jsonl",
        b'{"a": ' + b"9" * 5000 + b"}\n",
        "r.jsonl, line 1: broken JSON: Exceeds the limit",
    ),
    ("r.jsonl", b'{"a": "caf\xe9"}\n', "r.jsonl, line 1: not UTF-8 at byte 11 of the line"),
    ("r.jsonl", '{"a": 1}'.encode("utf-16"), "r.jsonl, line 1: not UTF-8 at byte 1 of the line"),
    ("r.jsonl", b"", "r.jsonl: the file has no rows"),
    ("r.json", b"[]", "r.json: the file has no rows"),
    ("r.json", b"[1]", "r.json, row 1: a row should be a JSON object, is a number"),
    ("r.json", b'[{"id": "x"}]', "r.json, row 1, field 'question': is missing"),
    (
        "r.json",
        b'[\n{"id": 1},\n{"id": }\n]',
        "r.json, line 3: broken JSON: Expecting value (column 8)",
    ),
    ("r.json", b'[{"id": 1}\n', "r.json, line 2: broken JSON: Expecting ',' delimiter"),
    ("r.json", b"[{}]\n x", "r.json, line 2: broken JSON: Extra data"),
    ("r.json", b'[\n{"a": "\xff"}]', "r.json, line 2: not UTF-8 at byte 10 of the file"),
    ("r.jsonl.gz", b"plain text", "r.jsonl.gz: not a readable gzip file"),
    ("r.jsonl.gz", gzip.compress(b'{"a": 1}\n' * 900)[:-9], "r.jsonl.gz: not a readable gzip file"),
    ("r.parquet", b"plain text", "r.parquet: not a readable parquet file"),
    ("r.parquet", b"PAR1" + b"\0" * 50 + b"PAR1", "r.parquet: not a readable parquet file"),
    ("r.zip", b"plain text", "r.zip: not a readable zip archive"),
    ("r.tar", b"plain text", "r.tar: not a readable tar archive"),
    (
        "r.csv",
        b"a,b\n",
        "not a data file by its name; known are .jsonl, .json, .jsonl.gz, .json.gz, .parquet",
    ),
]


@pytest.mark.parametrize(("name", "content", "message"), BROKEN, ids=range(len(BROKEN)))
def test_broken_file_is_one_sentence(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    check_refused(config(data=str(tmp_path / name)), message)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        [1, -2.5e-3, 30.0, "é😀\\ ]", None, True, [[]], {"a": [{"b": "}"}]}],
        {"k": [1, 2], "l": {"m": -7}},
    ],
)
def test_json_in_pieces_of_any_size_is_the_same_value(size, value, monkeypatch):
    monkeypatch.setattr("harness.datasets.files._PIECE_BYTES", size)
    written = b"\xef\xbb\xbf \n" + json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"
    whole, parts = (JsonText("r.json", io.BytesIO(written)) for _ in range(2))
    assert whole.next_value() == value
    assert (
        list(parts.next_list()) if isinstance(value, list) else dict(parts.next_object())
    ) == value
    for text in (whole, parts):
        text.require_end()


def test_folder_takes_the_files_of_the_split_in_order(tmp_path):
    write_lines(tmp_path / "dev-00001-of-00002.jsonl", [musique(2)])
    write_lines(tmp_path / "dev-00000-of-00002.jsonl", [musique(1)])
    write_lines(tmp_path / "train.jsonl", [musique(3)])
    write_lines(tmp_path / ".hidden.jsonl", [musique(4)])
    (tmp_path / "README.md").write_text("about")
    data = load(config(data=str(tmp_path)))
    assert [e.question.id for e in data.examples] == ["2hop__1", "2hop__2"]
    assert data.source == "dev-00000-of-00002.jsonl, dev-00001-of-00002.jsonl"
    assert [e.question.id for e in load(config(data=str(tmp_path), split="train")).examples] == [
        "2hop__3"
    ]
    check_refused(
        config(data=str(tmp_path), split="test"),
        "the folder has no file for split 'test' among dev-00000",
    )
    picked = load(config(data=str(tmp_path), options={"files": "dev-00001*"}))
    assert [e.question.id for e in picked.examples] == ["2hop__2"]


def test_duplicate_id_across_files_names_both(tmp_path):
    write_lines(tmp_path / "a.jsonl", [musique(1)])
    write_lines(tmp_path / "b.jsonl", [musique(2), "", musique(1)])
    sentence = "b.jsonl, line 3, field 'id': '2hop__1' is also the id of the row at a.jsonl, line 1; ids must differ; mend"
    check_refused(config(data=str(tmp_path)), sentence)


CONFIGS = [
    (
        {"format": "musiqe", "data": "x"},
        UnknownName,
        "unknown data set format 'musiqe'. Did you mean 'musique'",
    ),
    ({"format": "no.such.module:f", "data": "x"}, UserError, "no module 'no.such.module'"),
    (
        {"format": "harness.datasets.musique:UNANSWERABLE", "data": "x"},
        ConfigError,
        "is not a function",
    ),
    ({}, ConfigError, "does not say where its rows are; name their file with --data"),
    (
        {"data": "x.jsonl", "options": {"file": "a"}},
        ConfigError,
        "unknown key 'file'; did you mean 'files'?",
    ),
    ({"data": "x.jsonl", "options": {"files": 3}}, ConfigError, "should be a file name or pattern"),
    ({"data": "x.jsonl", "options": {"files": "a"}}, ConfigError, "this is one file"),
    (
        {"data": "no/where.jsonl"},
        DataError,
        "no/where.jsonl: no such file or folder; check --data, a path from the",
    ),
    ({"data": "x.jsonl", "revision": "main"}, ConfigError, "only rows from the hub have one"),
    (
        {"data": "package:no_such_package/x.jsonl"},
        CannotRun,
        "there is no package 'no_such_package'",
    ),
    ({"data": "package:harness/x.jsonl"}, CannotRun, "has no such file"),
]


@pytest.mark.parametrize(("fields", "error", "message"), CONFIGS)
def test_config_that_cannot_work(fields, error, message):
    fields = {"format": "musique", **fields}
    registry.trust(fields["format"])
    check_refused(config(fields.pop("format"), **fields), message, error)


def test_rows_that_come_with_a_package(tmp_path, monkeypatch):
    (tmp_path / "rows_of_mine").mkdir()
    (tmp_path / "rows_of_mine" / "__init__.py").touch()
    write_lines(tmp_path / "rows_of_mine" / "dev.jsonl", [musique(1), musique(2)])
    monkeypatch.syspath_prepend(str(tmp_path))
    data = load(config(data="package:rows_of_mine/dev.jsonl"))
    assert (len(data), data.source) == (2, "package:rows_of_mine/dev.jsonl")


def test_limit_below_one_is_refused():
    check_refused(config(data="x.jsonl"), "limit: should be at least 1, is 0", ConfigError, limit=0)


def test_a_format_of_ones_own(tmp_path):
    registry.trust("tests.datasets.own_format:parse_row")
    data = load(
        config(
            "tests.datasets.own_format:parse_row",
            data=str(write_lines(tmp_path / "r.jsonl", [{"n": 3}])),
        )
    )
    assert data.examples[0].gold.answers == ("9",)
    assert data.documents["row-3"].text == "Squares\nThe square of 3 is 9."


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (
            "raw['question']",
            r"line 2, field 'question': the parser '\S+' failed: KeyError: '\w+' \(own_rows.py:4\)",
        ),
        (
            "[][raw['n']]",
            r"line 2: the parser '\S+' failed: IndexError: list index out of range \(own_rows.py:4\)",
        ),
        (
            "None",
            r"line 1: the parser '\S+' returned NoneType; return a Row, a Group or a Skip \(and 2 more",
        ),
        ("Row('1', 5, (), ('a',))", "line 1, field 'question': should be a string, is a number"),
        (
            "Row('1', 'Who?', (('', 'Ann'),), 'Ann')",
            "line 1, field 'answers': should be a list, is a string",
        ),
        (
            "Row('1', 'Who?', ('T', 'Ann'), ['Ann'])",
            r"line 1, field 'paragraphs\[0\]': should be a list, is a string",
        ),
        (
            "Row('1', 'Who?', [['', 'Ann']], ['Ann'], 0)",
            "line 1, field 'supporting': should be a list, is a number",
        ),
        (
            "Row('1', 'Who?', [['', 'Ann']], ['Ann'], [0], {1: object()})",
            r"line 1: the parser '\S+' failed: TypeError",
        ),
    ],
)
def test_a_mistake_in_an_own_format_names_row_field_and_line(body, sentence, tmp_path, monkeypatch):
    head = "from harness.datasets.rows import Row\ndef parse(raw):\n    if raw['n'] != 1 or 'Row' in BODY or BODY == 'None':\n"
    code = f"{head}        return {body}\n    return Row('1', 'Who?', (('', 'Ann'),), ('Ann',))\nBODY = {body!r}\n"
    (tmp_path / "own_rows.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_rows", raising=False)
    registry.trust("own_rows:parse")
    rows = str(write_lines(tmp_path / "r.jsonl", [{"n": 1}, {"n": 2}, {"n": 3}]))
    with pytest.raises(DataError, match=sentence):
        load(config("own_rows:parse", data=rows))
