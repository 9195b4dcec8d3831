"""Commands called in this process on folders on disk, by the function of the installed command."""

import contextlib
import io
import re
import sys
from dataclasses import dataclass

from harness.cli.main import main as harness

MARKS = re.compile(
    r"does not fit|should not be ranked|not checked|measured otherwise|is priced|was made with"
    r"|after a change of|long texts|failed \("
)
"""What a table says of a run that is not as the others, beside a refusal."""
_NUMBERS = re.compile(r"\[\d+\]|[\d.]+")


@dataclass(frozen=True)
class Said:
    """What a command answered: its exit code and all that it printed."""

    code: int
    text: str

    @property
    def not_checked(self) -> str:
        """The last line of compare and report, which says what was not checked; "" for none."""
        _, start, rest = self.text.rpartition("\n\nnot checked: ")
        if not start:
            return ""
        return start + rest

    @property
    def marks(self) -> set[str]:
        """The sentences with a mark, without numbers, so that two outputs can be compared; without
        the line on what was not checked, which is no mark of a run."""
        joined = " ".join(self.text.removesuffix(self.not_checked).split())
        sentences = re.split(r"(?=\[\d+\] )|; |: does ", joined)
        return {_NUMBERS.sub("", one) for one in sentences if MARKS.search(one)}


def call(*arguments: str) -> Said:
    """Run `harness ARGUMENTS` in this process, by the same function as the installed command."""
    out = io.StringIO()
    before = sys.argv
    sys.argv = ["harness", *arguments]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            harness(list(arguments))
    except SystemExit as ended:
        return Said(int(ended.code or 0), out.getvalue())
    finally:
        sys.argv = before
    return Said(0, out.getvalue())
