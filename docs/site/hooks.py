"""What `make docs` puts on the site besides docs/*.md: README, CONTRIBUTING and CHANGELOG, and the
API from docstrings.

Links of these pages, and those from docs/ to them, are made to fit; a link to a file that is no
page (source code, a configuration) becomes the file's name.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
# Page of the site -> file of the repository; all others are docs/NAME.
PAGES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changes.md": "CHANGELOG.md",
    "printed-values.md": "reports/paper/README.md",
}
API = (
    "api.running",
    "api.results",
    "api.stored_runs",
    "method",
    "types",
    "models",
    "prompts",
)  # modules of harness
_LINK = re.compile(r"(\[(?:[^\[\]]|\[[^\]]*\])*\])\((?!\w+:|#)([^)#\s]*)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Write out `methods/*` of the navigation."""
    for part in config["nav"]:
        if isinstance(part, dict) and "Methods" in part:
            part["Methods"] = [
                "methods.md",
                *sorted(f"methods/{p.name}" for p in (ROOT / "docs/methods").glob("*.md")),
            ]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that do not stand in docs/."""
    for page, source in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    api = "# The API\n\nFrom the docstrings; the [guide](guide.md#python) has examples.\n\n"
    files.append(
        File.generated(
            config, "api.md", content=api + "\n\n".join(f"::: harness.{name}" for name in API)
        )
    )
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make the page's links fit the site."""
    here = page.file.src_uri
    source = PAGES.get(here, f"docs/{here}")

    def fitted(match: re.Match[str]) -> str:
        words, path, anchor = match[1], match[2], match[3] or ""
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        names = {file: name for name, file in PAGES.items()}
        name = names.get(target) or (
            target.removeprefix("docs/") if target.startswith("docs/") else None
        )
        if name is None or not name.endswith(".md"):
            return (
                words[1:-1] if (ROOT / target).exists() else match[0]
            )  # a broken link stays, and stops the build
        return f"{words}({posixpath.relpath(name, posixpath.dirname(here) or '.')}{anchor})"

    return _LINK.sub(fitted, markdown)
