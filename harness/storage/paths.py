"""What is shared names no home folder and no password: paths become ~/..., secrets in addresses
***.

with_home_expanded("~/models/x")                "/home/ann/models/x"     once, where a configuration is checked
without_home({"data": "/home/ann/d.json"})      {"data": "~/d.json"}     values that are paths of the home folder
sentence_without_home("no file '/home/ann/x'")  "no file '~/x'"          paths inside of a sentence
command_without_home(["--data=/home/ann/x"])    ["--data=~/x"]           words of a command
path_inside(Path("results"), "musique/pecan")   results/musique/pecan    a path made from data never leaves its folder
package_folder("pocket")                        .../site-packages/pocket nothing is imported

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
_NO_PATH_BEFORE = r"(?<![\w.~/\\-])"
_SLASH_AFTER = rf"(?={re.escape(os.sep)})"
# USER:PASSWORD@ is masked up to the last "@" before a space, as a password may hold "/" and "@";
# USER@ up to the first.
_ADDRESS_LOGIN = re.compile(r"(?<=://)(?:[^\s/?#@:]*:\S*|[^\s/?#@]*)@")
_ADDRESS_WITH_PASSWORD_AT_START = re.compile(r"^(\S*?://)[^/?#@:]*:.*@", re.DOTALL)
_SECRET_PARAMETER = re.compile(
    r"([?&;][^=&;\s]*(?:pass|pwd|secret|token|key|credential|signature|odbc_connect)[^=&;\s]*=)[^&\s]*",
    re.IGNORECASE,
)


def with_home_expanded(path: str) -> str:
    """Replace a leading ~ or ~user by that home folder: "~/models/x" -> "/home/ann/models/x".

    Other paths, and those of an unknown user, stay as they are.
    """
    if not path.startswith("~"):
        return path
    return os.path.expanduser(path)


def path_inside(folder: Path, *names: str) -> Path:
    """Join `folder` with names that come from data or a server.

    Raises UserError for a name that could lead out of it: an absolute one, "..", NUL or line end.
    """
    for name in names:
        leads_out = Path(name).is_absolute() or ".." in Path(name).parts
        has_control_character = re.search(r"[\0\n\r]", name) is not None
        if leads_out or has_control_character:
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
    if spec is None or not spec.submodule_search_locations:  # no module, or one that is a file
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
    run_name = f"{method}--{model}--{hash8}"
    return path_inside(Path(), dataset.replace("/", "~"), run_name.replace("/", "~"))


def local_folder(user_path: str | os.PathLike[str]) -> Path:
    """The folder that a user names by a path, with its ~ expanded; it need not exist.

    Raises UserError for an address like s3://...
    """
    if "://" in str(user_path):
        raise UserError(
            f"{user_path} is no folder of this machine; copy runs to and from it with: aws s3 sync"
        )
    return Path(user_path).expanduser()


def without_home(value: Any) -> Any:
    """Shorten each text in a JSON value that is a path in the home folder.

    {"data": "/home/ann/d.json"} -> {"data": "~/d.json"}
    """
    home = _home_without_slash()
    if home is None:
        return value
    home_at_start = re.compile(rf"^{re.escape(home)}(?={re.escape(os.sep)}|\Z)")

    def shorten(text: str) -> str:
        """Write "/home/ann/d.json" as "~/d.json"."""
        return home_at_start.sub("~", text)

    return _map_texts(value, shorten)


def with_home(value: Any) -> Any:
    """Expand each text in a JSON value that begins with ~/, the inverse of `without_home`.

    {"data": "~/d.json"} -> {"data": "/home/ann/d.json"}
    """

    def expand(text: str) -> str:
        """Write "~/d.json" as "/home/ann/d.json"; "~ann/d.json" stays."""
        if text == "~" or text.startswith("~" + os.sep):
            return with_home_expanded(text)
        return text

    return _map_texts(value, expand)


def sentence_without_home(sentence: str) -> str:
    """Shorten every path in the home folder that a sentence names.

    "no file '/home/ann/x'" -> "no file '~/x'"
    """
    home = _home_without_slash()
    if home is None:
        return sentence
    return re.sub(_NO_PATH_BEFORE + re.escape(home) + _SLASH_AFTER, "~", sentence)


def command_without_home(words: Sequence[str]) -> list[str]:
    """Shorten paths in the home folder in the words of a command, also after KEY= and sqlite:///.

    ["run", "data=/home/ann/d.json"] -> ["run", "data=~/d.json"]
    """
    home = _home_without_slash()
    if home is None:
        return list(words)
    key_or_sqlite = r"^((?:[\w.-]+=)?(?:sqlite:///)?)"
    home_path = re.compile(key_or_sqlite + re.escape(home) + rf"(?={re.escape(os.sep)}|$)")
    return [home_path.sub(r"\1~", word) for word in words]


def _home_without_slash() -> str | None:
    """The path of the home folder without a slash at its end; None where it is the root folder,
    which every path begins with.
    """
    home_folder = os.path.expanduser("~").rstrip(os.sep)
    if len(Path(home_folder or os.sep).parts) == 1:
        return None
    return home_folder


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


def with_address_secrets_masked(text: str) -> str:
    """The text with *** for the users, passwords and keys in its addresses; a text without "://"
    stays as it is.

    In a text that begins like an address with a password, "postgresql://bob:", everything from the
    user to the last "@" of the text is masked: a password with a space in it, but also words
    between the address and a later "@". Elsewhere USER:PASSWORD@ is masked up to the last "@"
    before a space, so that a password with a space in it stays there, and USER@ up to the first
    "@". Of parameters whose name tells of a secret ("?password=x") the value is masked.

    >>> with_address_secrets_masked("postgresql://bob:hunter2@db:5432/runs?password=x")
    'postgresql://***@db:5432/runs?password=***'
    """
    if "://" not in text:
        return text
    without_first_login = _ADDRESS_WITH_PASSWORD_AT_START.sub(r"\1***@", text)
    without_logins = _ADDRESS_LOGIN.sub("***@", without_first_login)
    return _SECRET_PARAMETER.sub(r"\1***", without_logins)
