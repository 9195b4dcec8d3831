"""Serialise a failed question for its record: {"type", "message"} and, for an unexpected error, its
traceback.

QuestionError, MemoryError, torch's OutOfMemoryError    expected: a sentence is enough
any other exception of a method                         with its traceback, paths cut to their package
what a scorer raises                                    the same with "stage": "scoring": the answer is there
"""

import gc
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.errors import IndexFailed, QuestionError, SaveError, UserError
from harness.storage.paths import sentence_without_home

# These end the run: the first is the user's to mend, the second would hit every question that
# follows.
STOPS = (UserError, SaveError)
_TRACEBACK_FRAME = re.compile(r'^  File "([^"]+)", line (\d+)', re.MULTILINE)
_NO_MEMORY_WORDS = "can't allocate memory"  # torch's allocator for the main memory


def error_in_one_line(error: Mapping[str, str]) -> str:
    """Write a record's error in one line: the first one of its message, and the place in the code
    to mend, where it has a traceback.

    {"type": "ValueError", "message": "no number", "traceback": ...}
        -> "ValueError: no number (methods/mine.py:12)"
    """
    line = f"{error['type']}: {error['message']}".splitlines()[0]
    source_line = _place_to_mend(error.get("traceback", ""))
    if source_line is None:
        return line
    return f"{line} ({source_line})"


def _place_to_mend(traceback_text: str) -> str | None:
    """Find the line of a traceback that its reader can change: "methods/mine.py:12".

    It is the innermost one outside the harness, installed packages and Python, else the innermost
    one; None without a traceback. Files are named from the folder that they are imported from.
    """
    source_lines = [
        f"{file}:{line_number}" for file, line_number in _TRACEBACK_FRAME.findall(traceback_text)
    ]
    if not source_lines:
        return None
    installed_roots = [Path(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib")]
    for source_line in reversed(source_lines):
        file = source_line.rpartition(":")[0]
        is_installed = any((root / file).is_file() for root in installed_roots)
        if not is_installed and not file.startswith("harness/"):
            return source_line
    return source_lines[-1]


def describe_failure(error: Exception) -> dict[str, str]:
    """Describe an error for a record: {"type", "message"}, and "traceback" where it was unexpected.

    Also frees the memory that the failed question held, if memory ran out.
    """
    if isinstance(error, IndexFailed):  # the index failed before, and was described then
        return error.error
    error_name = type(error).__name__
    message = sentence_without_home(str(error))
    if _ran_out_of_memory(error):
        if type(error) is RuntimeError:
            error_name = "OutOfMemoryError"  # what torch calls it on a GPU
        _free_memory(error)
        return {"type": error_name, "message": message or "out of memory"}
    description = {"type": error_name, "message": message or error_name}
    if not isinstance(error, QuestionError):
        description["traceback"] = _portable_traceback(error)
    return description


def _ran_out_of_memory(error: Exception) -> bool:
    """Whether the main memory or that of a GPU was too small.

    By name and words: torch is not imported here, and for the main memory it raises a plain
    RuntimeError.
    """
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, RuntimeError) and _NO_MEMORY_WORDS in str(error):
        return True
    return "OutOfMemoryError" in [parent.__name__ for parent in type(error).__mro__]


def _free_memory(error: Exception) -> None:
    """Free the tensors that the frames of an error's traceback hold, and the GPU memory that torch
    caches.
    """
    if error.__traceback__ is not None:
        traceback.clear_frames(error.__traceback__)  # the frames hold the tensors that did not fit
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _portable_traceback(error: Exception) -> str:
    """Format the traceback of an error, and of those that caused it, with paths shortened to their
    package: equal on every machine, and it names no user.
    """
    roots = [Path(__file__).resolve().parents[2]]  # the folder that holds the package harness
    roots += [Path(entry).resolve() for entry in sys.path if entry]
    whole_traceback = traceback.TracebackException.from_exception(error)
    error_part: traceback.TracebackException | None = whole_traceback
    while error_part is not None:
        for frame in error_part.stack:
            frame.filename = _path_below_root(Path(frame.filename), roots)
        error_part = error_part.__cause__ or error_part.__context__
    return sentence_without_home("".join(whole_traceback.format()))


def _path_below_root(path: Path, roots: Iterable[Path]) -> str:
    """The path of a module without the folder that it is imported from; else its file name alone.

    "/home/ann/venv/lib/a/b" -> "a/b", where "/home/ann/venv/lib" is among `roots`.
    """
    paths_below_roots = [
        path.relative_to(root).as_posix() for root in roots if path.is_relative_to(root)
    ]
    return min(paths_below_roots, key=len, default=path.name)
