"""Links and citations: every page, file and anchor that code or documents point to exists."""

import re
import tomllib
from pathlib import Path

import yaml

import harness
from harness.cli import init
from harness.config import registry
from harness.method import Method
from tests.docs.pages import PAGES, ROOT

METHODS = sorted((ROOT / "docs" / "methods").glob("*.md"))
CODE = ("harness", "methods", "reports", "configs", "packages", "tests", "bench")
_CITED = re.compile(r"docs/((?:methods/)?[a-z-]+\.md)(?:#([\w-]+))?")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
# Names under which other documents were once cited: a reader does not have them.
_FOLDERS = "|".join([*CODE, "docs", "requirements"])
_FOREIGN = re.compile(r"\bS00[0-3]\b|\bfacts \d|\bfacts/|\bdesign\.md|\(design:")


def anchors(page):
    """Explicit anchors, and those that a heading makes: small letters, no marks, hyphens for
    spaces."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r'<a id="([\w-]+)"></a>', text))


def sources():
    files = [
        path
        for folder in CODE
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".yaml", ".md")
    ]
    return [path for path in files if path != Path(__file__)]


def test_citations_in_code_point_to_pages_and_anchors():
    known = {
        page.relative_to(ROOT / "docs").as_posix(): anchors(page)
        for page in (ROOT / "docs").rglob("*.md")
    }
    cited = [
        (path.relative_to(ROOT), page, anchor)
        for path in sources()
        for page, anchor in _CITED.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(cited) > 80
    wrong = [
        f"{path}: docs/{page}#{anchor}"
        for path, page, anchor in cited
        if page not in known or (anchor and anchor not in known[page] and anchor != "pecan-name")
    ]
    assert not wrong, "\n".join(wrong)


def test_pecan_names_its_open_choices():
    text = (ROOT / "methods" / "pecan" / "config.py").read_text(encoding="utf-8")
    cited = set(re.findall(r"#([a-z][a-z-]+)\b(?=[);])", text))
    assert {"chunks", "levels", "similarity"} <= cited
    assert {f"pecan-{name}" for name in cited} <= anchors(ROOT / "docs" / "methods" / "pecan.md")


def test_nothing_cites_documents_that_a_reader_does_not_have():
    wrong = [
        f"{path.relative_to(ROOT)}: {found.group()}"
        for path in [*sources(), *PAGES]
        for found in _FOREIGN.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


def test_links_between_pages():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for link in _LINK.findall(text):
            if link.startswith(("http://", "https://", "mailto:")):
                continue
            target, _, anchor = link.partition("#")
            path = page.parent / target if target else page
            assert path.exists(), f"{page.name}: {link}"
            assert not anchor or anchor in anchors(path), f"{page.name}: {link}"


def test_named_files_exist():
    """A path in backticks that begins with a folder of the repository is one, or what `harness init`
    writes."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(rf"`((?:{_FOLDERS})/[\w./-]*)`", text):
            preset = ROOT / "configs" / "datasets" / f"{name}.yaml"
            if "..." in name or "NAME" in name or preset.exists() or name in init.FILES:
                continue
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_the_citation_names_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (cited["version"], cited["license"]) == (harness.__version__, project["license"])


def test_architecture_lists_the_layers_that_are_checked():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
        "importlinter"
    ]["contracts"]
    layers, *_ = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert "\n\n" + "\n".join(f"    {layer}" for layer in layers) + "\n\n" in text


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_every_preset_of_a_method_has_its_section():
    text = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
    table = text.partition("## Presets by section")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z0-9-]+)`", table))
    presets = {path.stem for path in (ROOT / "configs" / "methods").glob("*.yaml")}
    missing, unknown = sorted(presets - named), sorted(named - presets)
    assert not missing, f"docs/methods.md, 'Presets by section', lacks {missing}"
    assert not unknown, (
        f"docs/methods.md, 'Presets by section', names {unknown}, which are no presets"
    )


def test_every_parameter_of_a_method_is_named():
    text = "".join(page.read_text(encoding="utf-8") for page in METHODS)
    named = {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"\w+", code)}
    for name in registry.targets("methods"):
        known = registry.load(name, Method).Config.model_fields
        missing = sorted(set(known) - named)
        assert not missing, f"no page of docs/methods names the settings {missing} of {name}"


def test_every_data_set_and_encoder_is_described():
    data = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    for path in (ROOT / "configs" / "datasets").rglob("*.yaml"):
        name = path.relative_to(ROOT / "configs" / "datasets").with_suffix("").as_posix()
        assert f"`{name}`" in data, f"docs/datasets.md lacks `{name}`"
        licence = yaml.safe_load(path.read_text(encoding="utf-8")).get("licence")
        assert licence is None or name.startswith(("pocket/", "longbench/")) or licence in data, (
            name,
            licence,
        )
    methods = (ROOT / "docs" / "methods" / "retrieval.md").read_text(encoding="utf-8")
    for path in (ROOT / "configs" / "encoders").glob("*.yaml"):
        assert f"`{path.stem}`" in methods, path.stem
