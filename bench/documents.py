"""Words of documentation that a browser shows, and that the reading of a folder loses or joins.

    python -m bench.documents FOLDER ... [--pages 100] [--browser chromium]

HTML is compared with the browser's text of the page without its navigation, Markdown (without its
front matter) and reStructuredText with the words of the file, where it is UTF-8. A word is a run of
letters and digits; the words of both are counted, so a joined pair counts as two lost ones. Pages
are drawn evenly over the folders.
"""

import argparse
import random
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from bs4 import BeautifulSoup

from harness.datasets.folder_pages import read_pages

_WORD = re.compile(r"[^\W_]+")
_HTML = (".html", ".htm")
_SUFFIXES = (*_HTML, ".md", ".rst", ".txt")
# What is no text of a page here either; the browser's own text decides the rest.
_REMOVED = "nav, [role=navigation], [role=contentinfo], script, noscript, template"
_FOOTER_OF_THE_PAGE = "footer:not(article *, aside *, blockquote *, main *, section *)"
_SHOW = (
    "<script>addEventListener('load', () => {"
    "document.querySelectorAll(`%s`).forEach(one => one.remove());"
    "document.title = encodeURIComponent(document.body.innerText);"
    "});</script>"
)


def pages_of(folder: Path, wanted: int, seed: int) -> list[Path]:
    """Draw pages of a folder, at most `wanted`, among files of all suffixes."""
    found = sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES)
    files = [path for path in found if path.is_file() and _is_page(path)]
    return random.Random(seed).sample(files, min(wanted, len(files)))


def _is_page(path: Path) -> bool:
    """Whether a file is UTF-8, neither tiny nor huge, and no redirection to another one."""
    if not 500 < path.stat().st_size < 300_000:
        return False
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return 'http-equiv="refresh"' not in text


def file_text(page: Path) -> str:
    """The text of a file without its front matter."""
    text = page.read_text(encoding="utf-8")
    return text.split("\n---\n", 1)[-1] if text.startswith("---\n") else text


def browser_text(page: Path, browser: str) -> str:
    """The text that a browser shows of a page, without navigation and styles of other files.

    A copy of the page has a script of ours alone, which removes what is not asked for and puts the
    text that is left into the page's title; that is read from what the browser prints.
    """
    html = page.read_text(encoding="utf-8", errors="replace")
    soup = BeautifulSoup(html, "html.parser")
    for element in soup.find_all(["script", "link"]):
        element.decompose()
    script = _SHOW % f"{_REMOVED}, {_FOOTER_OF_THE_PAGE}"
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "page.html"
        copy.write_text(f"{soup}{script}", encoding="utf-8")
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000"]
        shown = subprocess.run(
            [browser, *flags, f"--user-data-dir={scratch}/user", "--dump-dom", copy.as_uri()],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
    title = BeautifulSoup(shown, "html.parser").title
    if title is None:
        return ""
    return unquote(title.get_text())


def our_text(page: Path) -> str:
    """The text of a page as a run reads it."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / page.name).write_bytes(page.read_bytes())
        (read,) = read_pages(Path(scratch)).pages
    return "\n".join([read.title, *(part for section in read.sections for part in section)])


def lost_words(shown: str, read: str) -> tuple[int, Counter[str]]:
    """Compare two texts of a page word by word.

    Args:
        shown: What a browser shows.
        read: What a run reads.

    Returns:
        (number of words shown; the words that are read less often, with how often they are
        missing).
    """
    words = Counter(_WORD.findall(shown))
    return words.total(), words - Counter(_WORD.findall(read))


def measure(pages: Sequence[Path], browser: str) -> None:
    """Print for each kind of page, and for all, how many words were lost, and the twelve pages that
    lost most. What a browser shows is compared with what a run reads; of a page that is no HTML,
    the text of the file.

    Args:
        pages: The pages.
        browser: The command of a browser.
    """
    n_words_of_kind: Counter[str] = Counter()
    n_lost_of_kind: Counter[str] = Counter()
    results: list[tuple[int, int, Path, list[tuple[str, int]]]] = []
    for page in pages:
        if page.suffix in _HTML:
            kind = "HTML"
            shown = browser_text(page, browser)
        else:
            kind = page.suffix
            shown = file_text(page)
        n_words, lost = lost_words(shown, our_text(page))
        n_words_of_kind[kind] += n_words
        n_lost_of_kind[kind] += lost.total()
        results.append((lost.total(), n_words, page, lost.most_common(8)))
    for kind, n_words in n_words_of_kind.items():
        n_lost = n_lost_of_kind[kind]
        rate = 10_000 * n_lost / n_words
        print(f"{kind}: {n_lost} of {n_words} words lost or joined, {rate:.2f} in 10,000")
    rate_of_all = 10_000 * n_lost_of_kind.total() / n_words_of_kind.total()
    print(f"all: {rate_of_all:.2f} in 10,000, {len(pages)} pages")
    for n_lost, n_words, page, lost_most in sorted(results, reverse=True)[:12]:
        if n_lost:
            print(f"  {n_lost} of {n_words}: {page.parent.name}/{page.name}: {lost_most}")


def main() -> None:
    """Draw pages of the folders, and print what is lost of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--browser", default="chromium")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    each = -(-options.pages // len(options.folders))
    drawn = [pages_of(folder, each, options.seed) for folder in options.folders]
    measure([page for pages in drawn for page in pages], options.browser)


if __name__ == "__main__":
    main()
