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
from collections.abc import Mapping
from pathlib import Path

from harness.errors import IndexFailed, QuestionError, SaveError, UserError
from harness.storage.paths import sentence_without_home

# These end the run: the first is the user's to mend, the second would hit every question that
# follows.
STOPS = (UserError, SaveError)
_FRAME = re.compile(r'^  File "([^"]+)", line (\d+)', re.MULTILINE)
_NO_MEMORY = "can't allocate memory"  # torch's allocator for the main memory


def one_line(error: Mapping[str, str]) -> str:
    """A record's error in one line, with its place: "ValueError: no number (methods/mine.py:12)".

    The place is the innermost one outside the harness, installed packages and Python, which a
    method's author can change; without a traceback there is none.
    """
    line = f"{error['type']}: {error['message']}".splitlines()[0]
    places = _FRAME.findall(error.get("traceback", ""))
    installed = [Path(sysconfig.get_path(kind)) for kind in ("stdlib", "purelib")]
    not_installed = [
        (file, n) for file, n in places if not any((root / file).is_file() for root in installed)
    ]
    not_ours = [(file, n) for file, n in not_installed if not file.startswith("harness/")]
    return f"{line} ({':'.join((not_ours or places)[-1])})" if places else line


def describe_failure(error: Exception) -> dict[str, str]:
    """Describe `error` as a record's {"type", "message", "traceback" if unexpected}; free memory if
    it ran out."""
    if isinstance(error, IndexFailed):  # the index failed before, and was described then
        return error.error
    name = type(error).__name__
    # By name and words: torch is not imported here, and for the main memory it raises a plain
    # RuntimeError.
    out_of_memory = isinstance(error, MemoryError) or any(
        c.__name__ == "OutOfMemoryError" for c in type(error).__mro__
    )
    out_of_memory |= isinstance(error, RuntimeError) and _NO_MEMORY in str(error)
    if out_of_memory and type(error) is RuntimeError:
        name = "OutOfMemoryError"  # what torch calls it on a GPU
    message = sentence_without_home(str(error))
    described = {"type": name, "message": message or ("out of memory" if out_of_memory else name)}
    if out_of_memory:
        _free_memory(error)
    elif not isinstance(error, QuestionError):
        described["traceback"] = _traceback(error)
    return described


def _free_memory(error: Exception) -> None:
    """Free the tensors that the frames of `error` hold, and the GPU memory that torch caches."""
    if error.__traceback__ is not None:
        traceback.clear_frames(error.__traceback__)  # the frames hold the tensors that did not fit
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _traceback(error: Exception) -> str:
    """Format the traceback without absolute paths: equal on every machine, and it names no user."""
    roots = [Path(__file__).resolve().parents[2], *(Path(p).resolve() for p in sys.path if p)]
    captured = traceback.TracebackException.from_exception(error)
    link: traceback.TracebackException | None = captured
    while link is not None:
        for frame in link.stack:
            path = Path(frame.filename)
            fitting = [
                path.relative_to(root).as_posix() for root in roots if path.is_relative_to(root)
            ]
            frame.filename = min(fitting, key=len, default=path.name)
        link = link.__cause__ or link.__context__
    return sentence_without_home("".join(captured.format()))
