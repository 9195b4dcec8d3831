"""What the installed command shows a model of the pages that people have."""

import io
import json
import subprocess
import sys
import zipfile

import pytest

from harness.storage.run_folder import read_run


class Asked:
    """A run of the command: texts (what the model was shown), printed, record, exit code."""

    def __init__(self, ended, folder):
        self.printed = " ".join((ended.stdout + ended.stderr).split())
        self.code = ended.returncode
        runs = list((folder / "out").glob("*/*/run.yaml"))
        self.record = read_run(runs[0].parent).records[0] if runs else None
        self.text = "\n".join(one["text"] for one in self.record.shown) if self.record else ""


@pytest.fixture
def ask(here, tmp_path):
    """Ask a question about a folder of these files (name -> content); returns an `Asked`."""

    def run(files, **question):
        for name, content in files.items():
            path = tmp_path / "wiki" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        row = {"question": "What?", "answer": "x", **question}
        (tmp_path / "q.jsonl").write_text(json.dumps(row) + "\n")
        (tmp_path / "script.yaml").write_text('{"window": 100000, "replies": [{"reply": "x"}]}')
        words = "run -m full-context --documents wiki --questions q.jsonl --model scripted"
        words += " --set model.script=script.yaml --mlflow off --out out"
        return Asked(here(*words.split()), tmp_path)

    return run


HTML = {
    "cells": (
        "<table><tr><td>Seal</td><td>7</td><td>euro</td></tr></table>",
        "| Seal | 7 | euro |",
    ),
    "definitions": (
        "<dl><dt>Warranty<dd>two years<dt>Price<dd>400</dl>",
        "Warranty\n:   two years",
    ),
    "blocks": ("<header>Top</header><main>Body</main><p>End", "Top\n\nBody\n\nEnd"),
    "options": ("<select><option>red<option>blue</select>", "red\n\nblue"),
    "code": ("<pre>def f():\n    return 1</pre>", "```\ndef f():\n    return 1\n```"),
    "fragment": ("<ul><li>Warranty: two years</li><li>x</li></ul>", "- Warranty: two years\n- x"),
    "head left open": ("<html><head><title>T</title><p>Two years", "T\nTwo years"),
    # Variations of the kind.
    "emphasis in a word": ("<p><b>bl</b>ue <i>val</i>ve</p>", "blue valve"),
    "code in a word": ("<p>It <a><code>clone</code></a>s <kbd>a_b</kbd>", "It clones a_b"),
    "a caption and its figure": ("<figure>A<figcaption>B</figcaption></figure>C", "A\n\nB\n\nC"),
    "buttons": ("<button>Save</button><button>Stop</button>", "Save\n\nStop"),
    "a summary": ("<details><summary>More</summary>text</details>", "More\n\ntext"),
    "a footer of an article": ("<article>A<footer>by Ann</footer></article>", "A\n\nby Ann"),
    "blocks in a cell": ("<table><tr><td><p>a</p><pre>b\nc</pre><td>d</table>", "| a  b c | d |"),
    "a table that lays the page out": (
        "<table><tr><td><h1>A</h1><h2>B</h2>c<td><table><tr><td>d<td>e</table></table>",
        "A\n\nA: B\nc\n\n| d | e |",
    ),
    "XHTML": (
        '<?xml version="1.0" encoding="UTF-8"?><html><body><p>a<br/>b</p></body></html>',
        "a\nb",
    ),
    "a code with fences": ("<pre>a\n```\nb</pre>", "````\na\n```\nb\n````"),
    "signs of Markdown": ("<p>a_b*c* &lt;d&gt; [e] 1. f</p>", "a_b*c* <d> [e] 1. f"),
    "a declared encoding": (b'<meta charset="iso-8859-5"><p>\xbf\xe0\xd8\xd2\xd5\xe2', "Привет"),
}


@pytest.mark.parametrize(("page", "text"), HTML.values(), ids=HTML)
def test_html_is_shown_as_markdown_with_no_word_lost_or_joined(ask, page, text):
    asked = ask({"p.html": page})
    assert text in asked.text
    assert asked.code == 0


@pytest.mark.parametrize(
    "junk",
    [
        "<nav>junk</nav>",
        "<footer>junk</footer>",
        '<div role="navigation">junk</div>',
        '<div role="contentinfo">junk</div>',
        "<script>junk</script>",
        "<style>junk</style>",
        "<template>junk</template>",
    ],
)
def test_navigation_footers_and_scripts_of_html_are_left_out(ask, junk):
    asked = ask({"p.html": f"<body>{junk}<p>Two years.</p>{junk}</body>"})
    assert asked.text == "p\nTwo years."


def test_headings_of_html_start_passages_and_the_title_is_the_pages(ask):
    page = "<title>Pump &amp; seal</title><h1>Pump</h1>A<h2>Cost</h2><p># 400 euro</p>"
    asked = ask({"p.html": page}, document="p", gold_pages="p#Cost")
    assert asked.text == "Pump & seal: Pump\nA\n\nPump & seal: Cost\n\\# 400 euro"
    (mark,) = asked.record.gold["supporting"]
    assert asked.text[mark["start"] : mark["end"]] == "Pump & seal: Cost\n\\# 400 euro"


FRONT = {
    "a rule": ("---\n\nNotice: three years.\n\n---\n\n# Pump\nBlue.", "Notice: three years."),
    "no mapping": ("---\nNote: a: b, the valve is green.\n---\nText.", "the valve is green"),
    "closed by dots": ("---\ntitle: Pump\n...\nBlue.", "Pump\nBlue."),
    "TOML": ('+++\ntitle = "Pump"\n+++\nBlue.', "Pump\nBlue."),
    "YAML": ("---\ntitle: Pump\ntags: [a]\n---\nBlue.", "Pump\nBlue."),
    # Variations of the kind.
    "a list": ("---\n- the valve is green\n---\nText.", "- the valve is green"),
    "without an end": ("---\ntitle: Pump\n\nThe valve is green.", "The valve is green."),
    "TOML that is none": ("+++\nthe valve is green\n+++\nText.", "the valve is green"),
    "a rule further down": ("A\n\n---\n\nB: c\n\n---\n", "B: c"),
    "an empty block": ("---\n---\nText.", "---\n---\nText."),
}


@pytest.mark.parametrize(("page", "text"), FRONT.values(), ids=FRONT)
def test_front_matter_gives_the_title_and_text_stays(ask, page, text):
    assert text in ask({"p.md": page}).text


@pytest.mark.parametrize(("mark", "page"), [("x: 1", FRONT["YAML"]), ("tags", FRONT["YAML"])])
def test_front_matter_is_not_shown(ask, mark, page):
    assert mark not in ask({"p.md": page[0].replace("tags", "x: 1\ntags")}).text


HEADINGS = {
    "underlined": ("Cost\n----\n400", ["Cost"]),
    "three spaces": ("   # Cost\n400", ["Cost"]),
    "in a comment": ("<!--\n# Old\n-->\n# Cost\n400", ["", "Cost"]),
    "in code": ("# A\n```\n# B\n```\n## C\nx", ["A", "C"]),
    "in a longer fence": ("~~~~\n~~~\n# B\n~~~~\n# C\nx", ["", "C"]),
    # Variations of the kind.
    "doubly underlined": ("Cost\n====\n400", ["Cost"]),
    "four spaces": ("text\n\n    # no heading\n# C\nx", ["", "C"]),
    "without a space": ("#no heading\n# C #\nx", ["", "C"]),
    "in a list and a quotation": ("- # a\n\n> # b\n\n# C\nx", ["", "C"]),
    "a table above": ("| a |\n|---|\n| b |\n\n# C\nx", ["", "C"]),
}


@pytest.mark.parametrize(("page", "headings"), HEADINGS.values(), ids=HEADINGS)
def test_sections_start_at_the_headings_of_commonmark(ask, page, headings):
    asked = ask({"p.md": page, "other.md": "y"}, document="p", gold_pages=f"p#{headings[-1]}")
    title = next(filter(None, headings))
    named = ["" if heading in ("", title) else f": {heading}" for heading in headings]
    (mark,) = asked.record.gold["supporting"]
    last = asked.text[mark["start"] : mark["end"]]
    assert last.startswith(f"{title}{named[-1]}\n")
    assert last.count("\n\n") + asked.text.count(f"\n\n{title}") >= len(headings) - 1


ENCODINGS = {
    "latin-1": ("Der Schlüssel hängt über der Tür.", "latin-1", "cp1252"),
    "Cyrillic": ("Привет, как дела сегодня?", "cp1251", "cp1251"),
    "Japanese": ("日本語のテキストです", "shift_jis", "cp932"),
    "UTF-16 without a mark": ("The warranty is two years.", "utf-16-le", "utf_16_le"),
    "UTF-16": ("Zażółć gęślą jaźń", "utf-16", ""),
    "UTF-32": ("Zażółć gęślą jaźń", "utf-32", ""),
}


@pytest.mark.parametrize(("text", "encoding", "assumed"), ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("suffix", [".txt", ".md"])
def test_pages_in_other_encodings_are_read_and_a_guess_is_noted(
    ask, text, encoding, assumed, suffix
):
    asked = ask({f"p{suffix}": text.encode(encoding)})
    assert asked.text == f"p\n{text}"
    note = f"the encoding was guessed, in wiki: p{suffix} (read as {assumed})"
    assert (note in asked.printed) == bool(assumed)
    assert ("guessed" in asked.printed) == bool(assumed)


def test_files_of_one_name_keep_their_endings_and_a_note_says_so(ask):
    files = {"policy.md": "Red", "policy.txt": "Blue", "guide/policy.html": "<p>Green"}
    asked = ask(files, document="policy.txt")
    assert asked.text == "policy.txt\nBlue"
    assert "another has the same name: policy.md, policy.txt" in asked.printed


@pytest.mark.parametrize("key", ["document", "gold_pages"])
def test_a_name_that_several_files_have_is_refused(ask, key):
    asked = ask({"policy.md": "Red", "policy.txt": "Blue"}, **{key: "policy"})
    assert asked.code == 2
    assert "page 'policy' may be policy.md or policy.txt; give its ending" in asked.printed


def docx(*paragraphs):
    """The bytes of a Word file of a heading and paragraphs."""
    space = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    style = '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>'
    styles = f'<w:styles {space}><w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style></w:styles>'
    runs = [f"<w:r><w:t>{text}</w:t></w:r>" for text in paragraphs]
    body = f"<w:p>{style}{runs[0]}</w:p>" + "".join(f"<w:p>{run}</w:p>" for run in runs[1:])
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    word = "application/vnd.openxmlformats-officedocument.wordprocessingml"
    links = f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{office}/%s" Target="%s"/></Relationships>'
    types = f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    types += f'<Override PartName="/word/document.xml" ContentType="{word}.document.main+xml"/>'
    types += f'<Override PartName="/word/styles.xml" ContentType="{word}.styles+xml"/></Types>'
    parts = {
        "[Content_Types].xml": types,
        "_rels/.rels": links % ("officeDocument", "word/document.xml"),
        "word/_rels/document.xml.rels": links % ("styles", "styles.xml"),
        "word/styles.xml": styles,
        "word/document.xml": f"<w:document {space}><w:body>{body}</w:body></w:document>",
    }
    return zipped(parts)


def zipped(parts):
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return held.getvalue()


def xlsx():
    openpyxl = pytest.importorskip("openpyxl")
    book, held = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["Part", "Price"])
    book.active.append(["Seal", "7 euro"])
    book.save(held)
    return held.getvalue()


def pptx():
    held, slides = io.BytesIO(), pytest.importorskip("pptx").Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[5])
    slide.shapes.title.text = "Seal 7 euro"
    slides.save(held)
    return held.getvalue()


def epub():
    container = '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="c.opf"/></rootfiles></container>'
    book = '<package xmlns="http://www.idpf.org/2007/opf"><metadata/><manifest><item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine></package>'
    page = "<html><body><h1>Cost</h1><p>Seal 7 euro</p></body></html>"
    return zipped({"META-INF/container.xml": container, "c.opf": book, "a.xhtml": page})


OFFICE = {
    "p.docx": (lambda: docx("Cost", "Seal 7 euro"), "Cost\nSeal 7 euro"),
    "p.xlsx": (xlsx, "| Seal | 7 euro |"),
    "p.pptx": (pptx, "Seal 7 euro"),
    "p.epub": (epub, "Cost\nSeal 7 euro"),
    "p.csv": (lambda: b"Part,Price\nSeal,7 euro\n", "| Seal | 7 euro |"),
}


@pytest.mark.parametrize("name", OFFICE)
def test_office_files_are_read(ask, name):
    pytest.importorskip("markitdown", reason="the extra 'documents' is not installed")
    made, text = OFFICE[name]
    assert text in ask({name: made()}).text


def test_a_damaged_office_file_is_named(ask):
    pytest.importorskip("markitdown", reason="the extra 'documents' is not installed")
    asked = ask({"p.docx": b"PK no zip", "a.md": "A"})
    assert "not read, or not in full, in wiki: p.docx (cannot be read: " in asked.printed


def test_without_markitdown_an_office_file_is_named(ask, monkeypatch):
    monkeypatch.setitem(sys.modules, "markitdown", None)
    asked = ask({"p.docx": docx("A"), "a.md": "A"})
    assert "p.docx (needs markitdown: pip install 'longdoc-harness[documents]')" in asked.printed


def test_html_that_is_nested_too_deep_is_named(ask):
    asked = ask({"p.html": "<div>" * 3000 + "deep", "a.md": "A"})
    assert "p.html (its tags are nested too deep)" in asked.printed


def test_a_question_file_in_the_folder_is_no_page(here, tmp_path):
    (tmp_path / "a.md").write_text("A")
    (tmp_path / "q.jsonl").write_text(
        '{"id": "q", "question": "What?", "answer": "x", "text": "secret"}\n'
    )
    (tmp_path / ".script.yaml").write_text('{"window": 100000, "replies": [{"reply": "x"}]}')
    words = "run -m full-context --documents . --questions q.jsonl --model scripted"
    words += " --set model.script=.script.yaml --mlflow off --out .out"
    here(*words.split()).checked(0)
    (stored,) = (tmp_path / ".out").glob("*/*/run.yaml")
    (record,) = read_run(stored.parent).records
    assert [one["text"] for one in record.shown] == ["a\nA"]


def test_a_run_on_a_plain_data_set_loads_no_reader_of_documents():
    code = (
        "import sys; from harness.cli.main import main\n"
        "sys.argv = 'harness validate -m bm25 -d pocket/musique'.split()\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = ('markitdown', 'lxml', 'bs4', 'markdown_it', 'markdownify')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("ok"), done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


UNREAD = {"document": "plan.ods", "gold_pages": "plan.ods#Cost", "documents": ["a", "gone"]}


@pytest.mark.parametrize("key", UNREAD)
def test_a_question_about_a_page_that_was_not_read_counts(ask, tmp_path, key):
    asked = ask({"a.md": "A", "plan.ods": "x,y"}, answer="y", **{key: UNREAD[key]})
    (folder,) = (tmp_path / "out/wiki").iterdir()
    summary = read_run(folder).summary.to_json()
    assert (summary["n_asked"], summary["n_scored"], "n_left_out" in summary) == (1, 1, False)
    assert asked.record.scores["flashrag.em"] == 0
    assert "1 question names pages that are not in the folder or were not read" in asked.printed


def test_a_question_about_an_unread_page_alone_is_asked_without_a_text(ask):
    asked = ask({"a.md": "A", "plan.ods": "x,y"}, document="plan.ods")
    assert asked.record.document_ids == []
    assert "A" not in asked.text
