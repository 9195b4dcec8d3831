"""Whatever a data file or a server holds, what `harness` prints steers no terminal."""

import contextlib
import io
import json
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli import main as cli
from harness.engine.progress import CountedQuestion
from harness.engine.progress_line import ProgressLine
from harness.errors import UserError, escaped_output, printable
from harness.storage.hub_download import DATASETS, download

POCKET = Path(__file__).resolve().parents[2] / "packages" / "pocket" / "pocket" / "model"
EVIL = "a\x1b]0;title\x07\x1b[2J\x9b31m\r\b\x7f\u202eb\u2028\u2066\ud800\U000e0001\ufeff"
NASTY = st.text(
    st.characters(categories=("Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Lo", "Ll", "Po")),
    min_size=1,
    max_size=30,
)


def steering(text):
    """The characters in `text` that a terminal obeys."""
    kept = "\n\t\u200c\u200d"
    return {
        c
        for c in text
        if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") and c not in kept
    }


def printed(*arguments):
    """Exit code and all that the command prints."""
    both = io.StringIO()
    with (
        contextlib.redirect_stdout(both),
        contextlib.redirect_stderr(both),
        pytest.raises(SystemExit) as ended,
    ):
        cli.main(list(arguments))
    return int(ended.value.code or 0), both.getvalue()


@settings(max_examples=100)
@given(NASTY | st.just(EVIL))
def test_text_is_shown_without_what_steers(text):
    shown = printable(text)
    assert steering(shown) == set()
    assert printable(shown) == shown
    line = json.dumps({"a": text}, ensure_ascii=False)
    assert json.loads(printable(line, None)) == {"a": text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")} or (
        any("\ud800" <= c <= "\udfff" for c in text)
    )  # fmt: skip


def test_what_people_write_is_left_alone():
    text = "Ünïcödé 文字\u3000列 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 👩\u200d🔬 a\u00a0b\tc\nd"
    assert printable(text) == text


def test_a_long_text_is_cut_between_words():
    shown = printable("record " * 1_000)
    assert shown.endswith(" record ... (7,000 characters)")
    assert printable("a" * 3_000).startswith("a" * 2_000 + " ... (")


def test_every_way_to_print_goes_through_the_door():
    both = io.StringIO()
    with contextlib.redirect_stdout(both), contextlib.redirect_stderr(both), escaped_output():
        print(EVIL, EVIL, sep="\r", end="\x1b[0m")
        sys.stdout.writelines([EVIL])
        sys.stderr.write(EVIL)
    assert steering(both.getvalue()) == set()


def test_a_long_line_on_stderr_is_cut_and_one_on_stdout_is_not():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), escaped_output():
        print("x" * 100_000)
        print("short\n" + "x" * 100_000, file=sys.stderr)
    assert len(out.getvalue()) == 100_001
    assert err.getvalue() == "short\n" + "x" * 2_000 + " ... (100,000 characters)\n"


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", r"\u00e9 \u6587 \ud83d\udd2c"),
        ("latin-1", r"é \u6587 \ud83d\udd2c"),
        ("utf-8", "é 文 🔬"),
    ],
)
def test_what_a_terminal_cannot_hold_is_escaped_as_in_json(encoding, shown):
    """A pipe too, where JSON goes."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict") for _ in range(2)
    )
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), escaped_output():
        print("é 文 🔬")
        print("é 文 🔬", file=sys.stderr)
    for stream in (out, err):
        stream.flush()
        assert stream.buffer.getvalue().decode(encoding) == f"{shown}\n"


def test_the_live_line_is_erased_and_holds_no_other_control():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with contextlib.redirect_stderr(stream), escaped_output():
        progress = ProgressLine(name=EVIL)
        progress.start(2, EVIL)
        progress.show_step(1, 2, EVIL)
        progress.note(EVIL)
        progress.count_recorded(CountedQuestion("q", False, {EVIL: 1.0}, {}))
        progress.stop()
    assert "\r\x1b[K" in stream.getvalue()
    assert steering(stream.getvalue().replace("\r\x1b[K", "")) == set()


def test_a_file_name_that_a_progress_bar_would_show(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="control characters in its name"):
        download(DATASETS, "a/b", "0" * 40, "x\x1b[2J.json")


def test_a_bug_with_outside_text_in_it(monkeypatch):
    def broken(**_):
        raise ValueError(EVIL)

    monkeypatch.setattr(cli, "app", broken)
    code, out = printed("list")
    assert code == 1
    assert "Traceback" in out
    assert "ValueError: a\\x1b]0;title" in out
    assert steering(out) == set()
