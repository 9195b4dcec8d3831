"""The site that `make docs` builds, as far as this environment, which has no MkDocs, can tell."""

import ast
import re

import yaml

from tests.docs.pages import PAGES, ROOT

SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def test_the_navigation_has_every_page():
    source = (ROOT / "docs/site/hooks.py").read_text()
    (added,) = re.findall(r"^PAGES = (\{.*?^\})", source, re.M | re.S)
    made = ast.literal_eval(added)
    named = [
        page
        for part in SITE["nav"]
        for page in (next(iter(part.values())) if isinstance(part, dict) else [part])
    ]
    below = {
        page.relative_to(ROOT / "docs").as_posix()
        for page in PAGES
        if (ROOT / "docs") in page.parents
    }
    wanted = {page for page in below if "/" not in page} | {
        "methods/*",
        "api.md",
        *(made.keys() - {"printed-values.md"}),
    }
    assert set(named) == wanted
    assert len(named) == len(wanted)
    assert all((ROOT / file).is_file() for file in made.values())


def test_a_broken_link_stops_the_build_and_nothing_is_loaded_from_elsewhere():
    assert "mkdocs build --strict\n" in (ROOT / "Makefile").read_text(), (
        "with --quiet no warning is counted"
    )
    assert set(SITE["validation"]["links"].values()) == {"warn"}
    assert SITE["theme"]["font"] is False
    assert "offline" not in SITE["plugins"], "it loads a script from another host"


def test_the_container_installs_every_lock_by_hash():
    file = (ROOT / "Containerfile").read_text()
    for name in ("torch", "cuda", "all", "models"):
        assert f"-r requirements/{name}.txt" in file
    assert file.count("pip install") - 1 == file.count("--require-hashes")
