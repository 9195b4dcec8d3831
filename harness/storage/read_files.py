"""Read JSON and YAML; callers say which file it was and what to do.

read_object(path)              the JSON object in a file
as_object(data)                the JSON object in a text
parse_yaml(text, loader)       the values of a YAML text
"""

import json
from pathlib import Path
from typing import Any


def as_object(data: str | bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises ValueError, also for any other JSON value."""
    value = json.loads(data)
    if not isinstance(value, dict):
        raise ValueError("it holds no JSON object")
    return value


def read_object(path: Path) -> dict[str, Any]:
    """Read the JSON object in a file. Raises OSError, ValueError."""
    return as_object(path.read_bytes())


def parse_yaml(text: str | bytes, loader: Any = None) -> Any:
    """Parse a YAML text by PyYAML's safe loader or one made from it. Raises ValueError, yaml.YAMLError."""
    import yaml

    return yaml.load(text, Loader=loader or getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # C: ten times as fast
