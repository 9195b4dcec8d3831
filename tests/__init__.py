"""The tests, with the packages of this checkout on the path, also for processes that tests start."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_FOLDERS = [str(ROOT), *(str(path.parent) for path in sorted(ROOT.glob("packages/*/pyproject.toml")))]
sys.path[:0] = _FOLDERS
os.environ["PYTHONPATH"] = os.pathsep.join([*_FOLDERS, *filter(None, [os.environ.get("PYTHONPATH")])])
