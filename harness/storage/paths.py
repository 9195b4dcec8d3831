"""What is shared names no home folder and no password: paths become ~/..., secrets in addresses
***.

expanded("~/models/x")                      "/home/ann/models/x"        once, where a configuration is checked
without_home({"data": "/home/ann/d.json"})  {"data": "~/d.json"}        values that are paths of the home folder
sentence_without_home("no file '/home/ann/x'")  "no file '~/x'"             paths inside of a sentence
command_without_home(["--data=/home/ann/x"])  ["--data=~/x"]              words of a command
inside(Path("results"), "musique/pecan")    results/musique/pecan       a path made from data never leaves its folder
package_folder("pocket")                    .../site-packages/pocket    nothing is imported

A value is taken for such a path by its beginning alone, so a text that tells of one stays as it is:
a prompt is stored as it was sent. "/data/home/ann/x" is another folder.
"""

import importlib.util
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UserError

# What may stand before a path in a sentence: nothing that could be a part of it.
_BEFORE = r"(?<![\w.~/\\-])"
_AFTER = rf"(?={re.escape(os.sep)})"
# USER:PASSWORD@ is masked up to the last "@" before a space, as a password may hold "/" and "@";
# USER@ up to the first.
_USER = re.compile(r"(?<=://)(?:[^\s/?#@:]*:\S*|[^\s/?#@]*)@")
_WHOLE = re.compile(r"^(\S*?://)[^/?#@:]*:.*@", re.DOTALL)
_SECRET = re.compile(
    r"([?&;][^=&;\s]*(?:pass|pwd|secret|token|key|credential|signature|odbc_connect)[^=&;\s]*=)[^&\s]*",
    re.IGNORECASE,
)


def expanded(path: str) -> str:
    """Replace a leading ~ or ~user by that home folder: "~/models/x" -> "/home/ann/models/x".

    Other paths, and those of an unknown user, stay as they are.
    """
    if not path.startswith("~"):
        return path
    return os.path.expanduser(path)


def inside(folder: Path, *names: str) -> Path:
    """Join `folder` with names that come from data or a server.

    Raises UserError for a name that could lead out of it: an absolute one, "..", NUL or line end.
    """
    for name in names:
        if Path(name).is_absolute() or ".." in Path(name).parts or re.search(r"[\0\n\r]", name):
            raise UserError(
                f"{name!r} is no name of a file below {folder}; such a path is not followed"
            )
    return folder.joinpath(*names)


def package_folder(name: str) -> Path | None:
    """The folder of an installed package, found without importing it; None for any other name.

    A dotted name gives None too: finding "a.b" would import a.
    """
    module = name.replace("-", "_")
    if not module.isidentifier():
        return None
    try:
        spec = importlib.util.find_spec(module)
    except ValueError:  # "__main__"
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def run_path(dataset: str, method: str, model: str, hash8: str) -> Path:
    """The path of a run below the results folder: <data set>/<method>--<model>--<hash8>.

    A "/" in a name becomes "~": "ruler/niah" -> "ruler~niah".

    Args:
        dataset: Name of the data set.
        method: Name of the method.
        model: Name of the model.
        hash8: The run's hash, eight digits.

    Raises:
        UserError: A name could lead out of the results folder.
    """
    return inside(
        Path(), dataset.replace("/", "~"), f"{method}--{model}--{hash8}".replace("/", "~")
    )


def local_folder(text: str | os.PathLike[str]) -> Path:
    """The folder that a user names, with its ~ expanded. Raises
    UserError for an address like s3://...
    """
    if "://" in str(text):
        raise UserError(
            f"{text} is no folder of this machine; copy runs to and from it with: aws s3 sync"
        )
    return Path(text).expanduser()


def without_home(value: Any) -> Any:
    """Shorten each text in a JSON value that is a path in the home folder.

    {"data": "/home/ann/d.json"} -> {"data": "~/d.json"}
    """
    home = _home()
    if home is None:
        return value
    beginning = re.compile(rf"^{re.escape(home)}(?={re.escape(os.sep)}|\Z)")

    def shorten(text: str) -> str:
        """Write "/home/ann/d.json" as "~/d.json"."""
        return beginning.sub("~", text)

    return _map_texts(value, shorten)


def with_home(value: Any) -> Any:
    """Expand each text in a JSON value that begins with ~/, the inverse of `without_home`.

    {"data": "~/d.json"} -> {"data": "/home/ann/d.json"}
    """

    def expand(text: str) -> str:
        """Write "~/d.json" as "/home/ann/d.json"; "~ann/d.json" stays."""
        if text == "~" or text.startswith("~" + os.sep):
            return expanded(text)
        return text

    return _map_texts(value, expand)


def sentence_without_home(sentence: str) -> str:
    """Shorten every path in the home folder that a sentence names.

    "no file '/home/ann/x'" -> "no file '~/x'"
    """
    home = _home()
    if home is None:
        return sentence
    return re.sub(_BEFORE + re.escape(home) + _AFTER, "~", sentence)


def command_without_home(words: Sequence[str]) -> list[str]:
    """Shorten paths in the home folder in the words of a command, also after KEY= and sqlite:///.

    ["run", "data=/home/ann/d.json"] -> ["run", "data=~/d.json"]
    """
    home = _home()
    if home is None:
        return list(words)
    before = r"^((?:[\w.-]+=)?(?:sqlite:///)?)"
    path = re.compile(before + re.escape(home) + rf"(?={re.escape(os.sep)}|$)")
    return [path.sub(r"\1~", word) for word in words]


def _home() -> str | None:
    """The path of the home folder without a slash at its end; None where it is the root folder,
    which every path begins with.
    """
    home = os.path.expanduser("~").rstrip(os.sep)
    if len(Path(home or os.sep).parts) == 1:
        return None
    return home


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Copy a JSON value with change(text) in place of each text in it;
    keys stay, tuples become lists.
    """
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_texts(inner, change) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_map_texts(inner, change) for inner in value]
    return value


def masked(text: str) -> str:
    """Write users, passwords and keys in the addresses of a text as
    ***; other texts stay as they are.

    A text that is one address is masked up to its last "@", so that a password with a space in it
    leaves nothing.

    >>> masked("postgresql://bob:hunter2@db:5432/runs?password=x")
    'postgresql://***@db:5432/runs?password=***'
    """
    if "://" not in text:
        return text
    without_whole = _WHOLE.sub(r"\1***@", text)
    without_users = _USER.sub("***@", without_whole)
    return _SECRET.sub(r"\1***", without_users)
