"""Every error this project raises on purpose, and how text from outside is printed.

HarnessError
├── UserError               exit 2 (3 once a run has records): one sentence, what to do, no traceback
│   ├── UnknownName         a name nobody registered, with close matches
│   ├── ConfigError         a run that cannot be planned: every mistake at once
│   ├── DataError           a row of a data file, with file, line and field
│   ├── CannotRun           weights, memory, a capability or a package that is missing
│   │   └── Missing         weights or rows that are not on this machine; a plan is possible without
│   └── RunLocked           another process writes this run folder
├── LimitReached            exit 3: questions left unasked at a limit of the command
├── QuestionError           this question fails, the run goes on
│   ├── WindowExceeded      more tokens than the model's window
│   ├── ForgedTurn          text from data that the model would read as the beginning or end of a turn
│   ├── ModelOutputError    NaN logits, an answer that cannot be decoded
│   ├── RequestFailed       a server that gave no usable reply, however often it was asked
│   └── WorkerLost          worker processes that ended while they answered it
└── SaveError               exit 3: a result could not be written
"""

import codecs
import contextlib
import difflib
import io
import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ParamSpec, TextIO, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

# Longer text from outside (a row id, a server's reply) would bury the sentence around it.
_MAX_CHARACTERS = 2_000
_MAY_NEED_ESCAPING = re.compile(r"[^ -~\n\t]")  # all but printable ASCII, line ends and tabs
_ESCAPED_CATEGORIES = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
_SHOWN_JOINERS = "\u200c\u200d"  # they shape words of Persian and Hindi, and emoji


def printable(text: str, max_characters: int | None = _MAX_CHARACTERS) -> str:
    r"""Escape what a terminal should not get in a text from outside, and cut the text.

    Line ends and tabs stay; escape sequences, bells, marks of text direction and half characters
    are escaped.

    >>> printable("a\x1b]0;title\x07b")
    'a\\x1b]0;title\\x07b'

    Args:
        text: Any text.
        max_characters: The most characters that are shown; None for all.
    """
    if max_characters is None or len(text) <= max_characters:
        return _MAY_NEED_ESCAPING.sub(_escape_match, text)
    shown = _MAY_NEED_ESCAPING.sub(_escape_match, _cut_between_words(text, max_characters))
    return f"{shown} ... ({len(text):,} characters)"


def _cut_between_words(text: str, max_characters: int) -> str:
    """The start of a longer text, up to its last space; cut inside a word where that is a tenth of
    the start or more."""
    start = text[:max_characters]
    whole_words, space, _ = text[: max_characters + 1].rpartition(" ")
    if space and len(whole_words) > 0.9 * max_characters:
        return whole_words
    return start


def _escape_match(match: re.Match[str]) -> str:
    r"""Escape the one character of a match, unless it can be printed: "\x07" -> "\\x07".

    Beyond ASCII the escape is JSON's.
    """
    character = match[0]
    if character in _SHOWN_JOINERS or unicodedata.category(character) not in _ESCAPED_CATEGORIES:
        return character
    if character < "\x7f":
        return character.encode("unicode_escape").decode()
    return _json_escape(character)


def _json_escape(character: str) -> str:
    r"""Write a character as JSON escapes it in ASCII: "é" -> "\u00e9"."""
    return json.dumps(character)[1:-1]


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    """Handle an encoding error: what to write for the characters that the encoding lacks.

    Returns (their escapes as JSON has them, position in the text at which to go on), as
    codecs.register_error wants it.
    """
    assert isinstance(error, UnicodeEncodeError)
    characters = error.object[error.start : error.end]
    return "".join(map(_json_escape, characters)), error.end


_JSON_ESCAPES = "json"  # a name for `errors=` of a stream: write a lacking character as "\u20ac"
codecs.register_error(_JSON_ESCAPES, _escape_unencodable)


class HarnessError(Exception):
    """Root of the tree above."""

    midway = False
    """Whether it ended a run that had recorded answers before: no longer a command that ran nothing
    (exit 3, not 2)."""

    def __init__(self, message: str = "") -> None:
        """Keep the message as the only one of `sentences` (one for each mistake); `missing`, the
        sentences that only say what this machine lacks, is empty.
        """
        super().__init__(message)
        self.sentences: list[str] = [message]
        self.missing: list[str] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """Say how to unpickle the error in another process: without calling its class, whose
        arguments are not the message alone, and with all its attributes.
        """
        return _make_unpickled, (type(self), self.args), self.__dict__


def _make_unpickled(error_class: type[HarnessError], args: tuple[Any, ...]) -> HarnessError:
    """Make an error of this class with these `args`, without calling the class's `__init__`.

    pickle calls it in the process that receives the error, and sets the attributes afterwards.
    """
    return error_class.__new__(error_class, *args)


class UserError(HarnessError):
    """Something the user can fix: printed as one sentence, exit code 2."""


def comparable_name(name: str) -> str:
    """The form in which names are compared, in lower case with "-" for "_".

    "Full_Context" -> "full-context"
    """
    return name.lower().replace("_", "-")


def close_matches(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The names that are written like `name`, the nearest first.

    Case, "-" and "_" do not count as differences: "Full_Contxt" -> ["full-context"].

    Args:
        name: The name.
        known: The names that there are.
        limit: The most names.
    """
    by_form = {comparable_name(other): other for other in known}
    close_names = difflib.get_close_matches(comparable_name(name), by_form, n=limit, cutoff=0.5)
    return [by_form[form] for form in close_names]


def _known_names_hint(name: str, known: Iterable[str], max_listed: int | None = None) -> str:
    """The part of a message that helps with an unknown name.

    " Did you mean 'x'?", or " Known: x, y." where no known name is near; "" where none is known.

    Args:
        name: The unknown name.
        known: The names that there are.
        max_listed: The most names that are listed; None for all.
    """
    names = sorted(known)
    close_names = close_matches(name, names)
    if close_names:
        return f" Did you mean {' or '.join(map(repr, close_names))}?"
    if not names:
        return ""
    listed = ", ".join(names[:max_listed])
    if names == names[:max_listed]:
        return f" Known: {listed}."
    return f" Known: {listed}, ..."


class UnknownName(UserError):
    """No thing of this `kind` is called `name`; the message names near ones of `known`. see: where
    to look."""

    def __init__(self, kind: str, name: str, known: Iterable[str], see: str = "") -> None:
        """Make the message: "unknown method 'bm26'. Did you mean 'bm25'?"

        Args:
            kind: What `name` should be the name of: "method".
            name: The unknown name.
            known: The names that there are; the message names near ones, or the first twelve.
            see: Where to look for more, put in brackets; "" for nowhere.
        """
        message = f"unknown {kind} '{name}'.{_known_names_hint(name, known, 12)}"
        if see:
            message += f"  ({see})"
        super().__init__(message)


def _lines_with_count(singular: str, plural: str, lines: Sequence[str]) -> list[str]:
    """Lines below a head that counts them: ["2 mistakes:", "  - x", "  - y"]; [] for no lines.

    Args:
        singular: The head's words for one line: "1 mistake".
        plural: The noun for several: "mistakes".
        lines: What is listed.
    """
    if not lines:
        return []
    head = f"{len(lines)} {plural}:"
    if len(lines) == 1:
        head = f"{singular}:"
    return [head, *(f"  - {line}" for line in lines)]


class ConfigError(UserError):
    """All that is wrong with a configuration. missing: those of `problems` that only say what this
    machine lacks."""

    def __init__(self, problems: Sequence[str], missing: Sequence[str] = ()) -> None:
        """Make one message of all problems, and keep them in `sentences`.

        Args:
            problems: A sentence for each, at least one.
            missing: Those of `problems` that only say what this machine lacks.
        """
        message = problems[0]
        if len(problems) > 1:
            mistakes = [problem for problem in problems if problem not in missing]
            shown = _lines_with_count("1 mistake", "mistakes", mistakes)
            shown += _lines_with_count("1 thing is missing", "things are missing", missing)
            message = "\n".join(shown)
        super().__init__(message)
        self.sentences = list(problems)
        self.missing = list(missing)


class DataError(UserError):
    """A data file that cannot be used: names the file, line (from 1) and field; None where there is
    none to name."""

    def __init__(self, path: object, line: int | None, field: str | None, problem: str) -> None:
        """Make the message: "rows.jsonl, line 3, field 'answer': is missing".

        Args:
            path: The file.
            line: The number of the line, from 1; None for none.
            field: The field; None for none.
            problem: What is wrong.
        """
        self.path = str(path)
        self.line = line
        self.field = field
        where = self.path
        if line is not None:
            where += f", line {line}"
        if field:
            where += f", field '{field}'"
        super().__init__(f"{where}: {problem}")

    @classmethod
    def of_file(cls, path: object, problem: str) -> "DataError":
        """The error for a file as a whole, without a line and a field: "rows.jsonl: is empty".

        Args:
            path: The file.
            problem: What is wrong.
        """
        return cls(path, line=None, field=None, problem=problem)


class CannotRun(UserError):
    """Weights, memory, a capability or a package that is missing."""


class Missing(CannotRun):
    """Weights or rows that are not on this machine. thing: what to get, "weights of owner/name"."""

    def __init__(self, message: str, thing: str) -> None:
        """Keep both; the message also stands in `missing`.

        Args:
            message: The sentence.
            thing: What to get: "weights of owner/name".
        """
        super().__init__(message)
        self.missing, self.thing = [message], thing


class RunLocked(UserError):
    """Another live process is writing the same run folder."""


class QuestionError(HarnessError):
    """This question cannot be answered; it is recorded as failed and the run goes on."""


class WindowExceeded(QuestionError):
    """The context would hold more tokens than the model's window."""


class ForgedTurn(QuestionError):
    """Text from data whose plain tokens include a control token."""


class ModelOutputError(QuestionError):
    """The model's output is unusable, for instance NaN logits."""


class RequestFailed(QuestionError):
    """A server gave no usable reply; this question fails, and `harness run --retry-failed` asks it
    again."""


class WorkerLost(QuestionError):
    """Worker processes ended, one after the other, while they answered this question
    (scale/ray_engine.py)."""


class LimitReached(HarnessError):
    """A run that ended, or was not begun, at a limit of its command
    (harness/engine/command_limits.py)."""


class FirstFailure(HarnessError):
    """A question failed in a run with --fail-fast; its record is stored. traceback: "" for an
    expected error."""

    def __init__(self, message: str, traceback: str = "") -> None:
        """Keep the traceback.

        Args:
            message: The failed question's error in one line.
            traceback: Its traceback; "" for an expected error.
        """
        super().__init__(message)
        self.traceback = traceback


class SaveError(HarnessError):
    """A result could not be written (exit code 3)."""


@contextlib.contextmanager
def import_error_as_cannot_run() -> Iterator[None]:
    """Turn an ImportError in the block into CannotRun: every question would fail with it."""
    try:
        yield
    except ImportError as error:
        lines_of_message = str(error).strip().splitlines()
        why = type(error).__name__
        if lines_of_message:
            why = lines_of_message[-1]
        raise CannotRun(
            f"a library cannot be imported ({why}); install it again, and look with: harness doctor"
        ) from error


def unknown_name_error(subject: str, name: str, known: Iterable[str]) -> UserError:
    """Make the error for an unknown name: "unknown <what>." with near ones of `known`, else all.

    Args:
        subject: What is unknown, as the sentence says it: "prompt 'x' of 'bm25'".
        name: The unknown name.
        known: The names that there are.
    """
    return UserError(f"unknown {subject}.{_known_names_hint(name, known)}")


def call_noting_problem(
    problems: list[HarnessError], function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T | None:
    """Call `function`. If it raises a UserError, add that to `problems` and return None.

    Args:
        problems: The problems so far; it is extended.
        function: What is called.
        args: Its arguments.
        kwargs: Its arguments by name.
    """
    try:
        return function(*args, **kwargs)
    except UserError as error:
        problems.append(error)
        return None


def raise_all(problems: Sequence[HarnessError]) -> None:
    """Raise what `call_noting_problem` collected: nothing for none, a single problem as it is.

    Several are raised as one ConfigError with each sentence once.
    """
    sentences: dict[str, None] = {}  # this and the next as ordered sets
    missing: dict[str, None] = {}
    for problem in problems:
        sentences.update(dict.fromkeys(problem.sentences))
        missing.update(dict.fromkeys(problem.missing))
    if len(problems) == 1 and len(sentences) == 1:
        raise problems[0]
    if sentences:
        raise ConfigError(list(sentences), list(missing))


class _EscapingStream:
    """A text stream whose `write` escapes (`printable`). cut: also cut each line; all else is the
    stream's own."""

    def __init__(self, stream: TextIO, cut: bool) -> None:
        """Wrap a stream.

        Args:
            stream: The stream that is written to.
            cut: Whether each line is also cut to 2,000 characters.
        """
        self.stream, self._cut = stream, cut

    def __getattr__(self, name: str) -> Any:
        """Give any other attribute of the stream itself."""
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write `text` with its control characters escaped; returns the length of `text`."""
        if self._cut:
            self.stream.write("\n".join(map(printable, text.split("\n"))))
        else:
            self.stream.write(printable(text, max_characters=None))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each of the texts, escaped."""
        for line in lines:
            self.write(line)


@contextlib.contextmanager
def escaped_output() -> Iterator[None]:
    """In this block, escape control characters in all that is written to stdout and stderr.

    So is a character that their encoding lacks, as in JSON. On stderr each line is also cut to
    2,000 characters; on stdout, where tables and JSON go, nothing is cut.
    """
    stdout_before = sys.stdout
    stderr_before = sys.stderr
    for stream in (stdout_before, stderr_before):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_JSON_ESCAPES)
    sys.stdout = cast("Any", _EscapingStream(stdout_before, cut=False))
    sys.stderr = cast("Any", _EscapingStream(stderr_before, cut=True))
    try:
        yield
    finally:
        sys.stdout = stdout_before
        sys.stderr = stderr_before


def unwrapped(stream: TextIO) -> TextIO:
    """The stream below one whose output is escaped; any other stream as it is."""
    if isinstance(stream, _EscapingStream):
        return stream.stream
    return stream


def erase_line(stream: TextIO) -> None:
    """Empty the terminal's current line and go to its start, past the escaping of
    `escaped_output`.
    """
    unwrapped(stream).write("\r\x1b[K")


class IndexFailed(Exception):
    """A document's failure, already described in `error`, raised again for the next question on
    it."""

    def __init__(self, error: dict[str, str]) -> None:
        """Keep the failure as a record holds it, {"type": "CannotRun", "message": "..."}; its
        message is this error's too.
        """
        super().__init__(error["message"])
        self.error = error
