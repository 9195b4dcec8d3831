"""Small files that unpack, nest or run without end: each ends with one sentence, in bounded memory and time."""

import gzip
import io
import itertools
import json
import random
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from pathlib import Path

import pytest

from harness.config.yaml_tree import read_yaml
from harness.datasets.archives import Member, members, opened
from harness.datasets.files import content_digest, json_value, read_rows
from harness.datasets.narrativeqa_stories import stories_in
from harness.errors import CannotRun, ConfigError, DataError, UserError
from harness.llm import template
from harness.llm.endpoint_tokens import ALLOWANCE, Tokens
from harness.storage import input_limits
from harness.storage.run_folder import read_run

POCKET = Path(__file__).resolve().parents[2] / "packages" / "pocket" / "pocket" / "model"
MEMORY = 700 << 20  # beyond what is in use when a bomb is opened
SECONDS = 10
DEEP = 50_000


def squeezed(piece, times, prefix=b""):
    """A gzip file of `prefix` and `times` times `piece`, made without unpacking it."""
    return gzip.compress(prefix) + gzip.compress(piece, 9) * times


ZEROS = squeezed(b"\0" * (32 << 20), 64, b'{"id": "')  # 2 MB, 2 GiB unpacked
MIB = b" " * (1 << 20)


def zipped(path, name, content, **how):
    with zipfile.ZipFile(path, "w", **{"compression": zipfile.ZIP_DEFLATED, **how}) as archive:
        archive.writestr(name, content)
    return path


def tarred(path, name, content):
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return path


def written(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def rows(path):
    list(read_rows(path, row_keys=("id",)))


def member(path, name):
    list(read_rows(Member(path, name), row_keys=("id",)))


def story(folder):
    stories_in(folder).read("s")


def archived_story(folder, content):
    folder.mkdir()
    story(zipped(folder / "narrativeqa_full_text.zip", "s.content", content).parent)


def _unpacking(at):
    blank = squeezed((b" " * 1023 + b"\n") * (32 << 10), 32, b'{"id": "1"}\n')
    spaces = squeezed(b" " * (32 << 20), 32, b"[")
    nested = zipped(at / "nested.zip", "r.jsonl.gz", ZEROS)
    large = zipped(at / "large.zip", "r.jsonl", b"[" + b" " * (40 << 20))
    return {
        "a line of 2 GiB in 2 MB of gzip": lambda: rows(written(at / "a.jsonl.gz", ZEROS)),
        "a list of 1 GiB": lambda: rows(written(at / "b.json.gz", spaces)),
        "a million blank lines": lambda: rows(written(at / "c.jsonl.gz", blank)),
        "one value of 1 GiB": lambda: json_value(written(at / "d.json.gz", spaces)),
        "its digest": lambda: content_digest(written(at / "e.jsonl.gz", ZEROS)),
        "a zip member": lambda: member(large, "r.jsonl"),
        "the digest of a zip member": lambda: content_digest(Member(large, "r.jsonl")),
        "gzip in a zip": lambda: member(nested, "r.jsonl.gz"),
        "a tar member": lambda: member(tarred(at / "m.tgz", "r.jsonl", b"[" + b" " * (40 << 20)), "r.jsonl"),
        "the names of a tar archive": lambda: members(tarred(at / "n.tgz", "r.jsonl", b" " * (40 << 20))),
        "gzip in a tar": lambda: member(tarred(at / "o.tar", "r.jsonl.gz", ZEROS), "r.jsonl.gz"),
        "a story": lambda: story(written(at / "f" / "s.content", ZEROS).parent),
        "a story in an archive": lambda: archived_story(at / "g", b" " * (40 << 20)),
        "a zipped story in an archive": lambda: archived_story(at / "h", ZEROS),
        "stories as lines": lambda: story(written(at / "i" / "stories.jsonl.gz", ZEROS).parent),
        "bzip2 in a zip": lambda: member(
            zipped(at / "j.zip", "r.jsonl", MIB, compression=zipfile.ZIP_BZIP2), "r.jsonl"
        ),
        "LZMA in a zip": lambda: member(zipped(at / "k.zip", "r.jsonl", MIB, compression=zipfile.ZIP_LZMA), "r.jsonl"),
        "a member with a password": lambda: member(_locked(zipped(at / "l.zip", "r.jsonl", b"{}")), "r.jsonl"),
    }


def _locked(path):
    """With the flag for encryption set in both headers."""
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(data)
    return path


def _nesting(at):
    def row(content, name="r.jsonl"):
        return lambda: _first(written(at / str(next(_COUNT)) / name, content.encode()))

    def config(content):
        return lambda: read_yaml(written(at / f"{next(_COUNT)}.yaml", content.encode()))

    def run(name, content):
        folder = written(at / str(next(_COUNT)) / "run.yaml", b"config: {}\n").parent
        return lambda: read_run(written(folder / name, content.encode()).parent)

    laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
    )
    keys = ", ".join(f'"{n}": 1' for n in range(200_000))
    return {
        "lists in lists": row('{"id": ' + "[" * DEEP + "]" * DEEP + "}"),
        "lists that stay open": row('{"id": ' + "[" * DEEP),
        "a depth that the parser takes": row('{"id": ' + "[" * 500 + "]" * 500 + "}"),
        "objects in objects": row('{"a":' * DEEP + "1" + "}" * DEEP),
        "in a JSON list": row('[{"id": ' + "[" * 500 + "]" * 500 + "}]", "r.json"),
        "in a mapping of rows": row('{"x": {"id": ' + "[" * 500 + "]" * 500 + "}}", "r.json"),
        "a key twice among 200,000": row('{"id": "x", ' + keys + ', "199999": 2}'),
        "a number of 5,000 digits": row('{"id": ' + "9" * 5000 + "}"),
        "a YAML list in a list": config("[" * 200_000),
        "YAML dashes": config("- " * 200_000),
        "YAML mappings": config("{a: " * 200_000),
        "YAML keys": config("? " * 200_000),
        "a depth that the YAML parser takes": config("a: " + "[" * 500 + "]" * 500),
        "a billion laughs": config(laughs),
        "a YAML number of 5,000 digits": config("a: " + "9" * 5000),
        "a run.yaml in depth": run("run.yaml", "config: " + "[" * 200_000),
        "a run.yaml of aliases": run("run.yaml", laughs + "config: {a: *a29}\n"),
        "a manifest in depth": run("manifest.json", "[" * DEEP),
        "a summary in depth": run("summary.json", '{"a":' * DEEP),
        "records in depth": run("records.jsonl", ('{"question_id": "1", "a": ' + "[" * 500 + "]" * 500 + "}\n") * 2),
    }


_COUNT = itertools.count()


def _first(path):
    """Read a file's rows; the problem of a broken one is raised as loading raises it."""
    for place, found in read_rows(path, row_keys=("id",)):
        if not isinstance(found, dict):
            raise place.error(None, found.problem)


def attack(folder):
    """Try every bomb in a process that may take no more than MEMORY; print a JSON line for each."""
    import resource

    at = Path(folder)
    bombs = {**_unpacking(at), **_nesting(at)}
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))
    for name, bomb in bombs.items():
        began = time.monotonic()
        try:
            bomb()
            told = "nothing was refused"
        except UserError as error:
            told = f"refused: {error}"
        except BaseException as error:  # noqa: BLE001 - a crash is what the test looks for
            told = f"{type(error).__name__}: {error}"
        print(json.dumps([name, told, time.monotonic() - began]), flush=True)


def test_no_file_takes_all_memory_or_time(tmp_path):
    code = f"from tests.security.test_bombs import attack; attack({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (found[-1:], done.stderr[-1000:])
    assert len(found) == 38
    wrong = [(name, told, seconds) for name, told, seconds in found if not told.startswith("refused: ")]
    assert wrong == []
    assert [name for name, told, _ in found if "\n" in told or len(told) > 600] == []
    assert [(name, seconds) for name, _, seconds in found if seconds > SECONDS] == []


def test_real_data_is_far_from_the_limits(tmp_path):
    """Repeated prose packs better than any real file (here 100:1) and passes, 50 MiB of it, and so does a deep row."""
    draw = random.Random(0)
    prose = " ".join(str(draw.random()) for _ in range(400))
    line = json.dumps({"id": "1", "text": prose * 10}).encode() + b"\n"
    packed = zlib.compress(line * 100)
    path = written(tmp_path / "r.jsonl.gz", gzip.compress(line * 700))
    assert 50 < len(line) * 100 / len(packed) < 200
    assert sum(1 for _ in read_rows(path)) == 700
    deep = "[" * 98 + "]" * 98
    _first(written(tmp_path / "deep.jsonl", f'{{"id": {deep}}}'.encode()))
    with pytest.raises(DataError, match="nested more than 100 levels deep"):
        _first(written(tmp_path / "deep.jsonl", f'{{"id": [[{deep}]]}}'.encode()))


def test_each_limit_can_be_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(input_limits, "_FREE", 1 << 20)
    path = written(tmp_path / "r.json.gz", gzip.compress(b'["' + b"a" * (4 << 20) + b'"]'))
    with pytest.raises(DataError, match=r"unpacks to more than 200 times its size; .* export HARNESS_MAX_RATIO="):
        json_value(path)
    monkeypatch.setenv("HARNESS_MAX_RATIO", "2000")
    assert json_value(path)
    lines = written(tmp_path / "r.jsonl", b'{"id": "1"}\n{"id": "' + b"a" * (1 << 20) + b'"}\n')
    monkeypatch.setenv("HARNESS_MAX_LINE_MIB", "1")
    with pytest.raises(DataError, match=r"line 2: longer than 1 MiB; .* export HARNESS_MAX_LINE_MIB="):
        rows(lines)
    monkeypatch.setenv("HARNESS_MAX_LINE_MIB", "2")
    rows(lines)
    monkeypatch.setenv("HARNESS_MAX_DEPTH", "600")
    _first(written(tmp_path / "deep.jsonl", b'{"id": ' + b"[" * 500 + b"]" * 500 + b"}"))
    for wrong in ("0", "-1", "many", "1e3"):
        monkeypatch.setenv("HARNESS_MAX_DEPTH", wrong)
        with pytest.raises(UserError, match="HARNESS_MAX_DEPTH must be a positive whole number"):
            input_limits.limit("DEPTH")


def test_aliases_count_where_they_are_used(tmp_path, monkeypatch):
    path = written(tmp_path / "a.yaml", b"a: &a [1, 2, 3]\nb: [*a, *a]\n")
    assert read_yaml(path) == {"a": [1, 2, 3], "b": [[1, 2, 3]] * 2}
    monkeypatch.setenv("HARNESS_MAX_VALUES", "15")
    with pytest.raises(ConfigError, match="aliases stand for more than 15 values"):
        read_yaml(path)


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": 1}', "é\r\n".encode() * 5000, b"\0" * 99_999])
def test_unpacking_changes_no_byte(tmp_path, content):
    packed = written(tmp_path / "a.gz", gzip.compress(content[:7]) + gzip.compress(content[7:]))
    archive = zipped(tmp_path / "a.zip", "a.gz", packed.read_bytes())
    for source in (packed, Member(archive, "a.gz")):
        with opened(source) as stream:
            assert stream.read(5) == content[:5]
            stream.seek(0)
            assert list(stream) == io.BytesIO(content).readlines()


def test_a_parquet_file_that_unpacks_beyond_the_limit(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"id": ["a" * 1_000_000] * 40})
    parquet.write_table(table, tmp_path / "r.parquet", compression="zstd", use_dictionary=False)
    with pytest.raises(DataError, match="unpacks to more than 200 times its size"):
        rows(tmp_path / "r.parquet")


TEMPLATES = {
    "a loop in a loop": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "a text of 10 GB": "{{ 'a' * 10000000000 }}",
    "a number of 100 million digits": "{{ 9 ** 99999999 }}",
    "a text that doubles": (
        "{% set n = namespace(x='a' * 1000000) %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% endfor %}"
    ),
    "pages without end": "{% for i in range(99999) %}{{ 'a' * 100000 }}{% endfor %}",
    "a macro that calls itself": "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
    "a list of 10 billion": "{{ [0] * 10000000000 }}",
    "a format of 10 GB": "{{ '%10000000000d' % 1 }}",
    "a division by zero": "{{ 1 / 0 }}",
    "no template": "{% for %}",
    "the interpreter's classes": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
}


@pytest.mark.parametrize("attack", TEMPLATES)
def test_a_template_of_a_hostile_model_ends(attack, tmp_path, monkeypatch):
    monkeypatch.setattr(template, "SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(CannotRun, match="the chat template of 'm' .*model.template=none"):
        template.cut_template(TEMPLATES[attack], {}, "m", "26 Jul 2024")
    (tmp_path / "tokenizer.json").write_bytes((POCKET / "tokenizer.json").read_bytes())
    (tmp_path / "chat_template.jinja").write_text(TEMPLATES[attack])
    assert Tokens(tmp_path, "m").turn_tokens == ALLOWANCE
    assert time.monotonic() - began < 6


def test_a_template_changes_nothing_here(monkeypatch):
    """It is rendered in another process."""
    seen, own = [], template.environment
    monkeypatch.setattr(template, "environment", lambda: seen.append("here") or own())
    turns = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]"
    assert template.cut_template(turns, {}, "m", "26 Jul 2024").begin == "[user]"
    assert seen == []
