"""Links in a folder of documents: what lies outside of it, or hidden in it, reaches no prompt."""

import json

import pytest


@pytest.fixture
def wiki(tmp_path):
    """A folder of one page with a hidden file, beside a folder that it has no business with."""
    folder = tmp_path / "wiki"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/config").write_text("token = SECRET\n")
    (folder / "page.md").write_text("# Office\nThe office is in Turin.\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/key.md").write_text("SECRET\n")
    return folder


@pytest.fixture
def ask(here, wiki, tmp_path):
    """Ask a question about the whole folder; the run keeps its prompts."""
    question = {"question": "Where is the office?", "answer": "Turin"}
    (tmp_path / "q.jsonl").write_text(json.dumps(question) + "\n")
    (tmp_path / "script.yaml").write_text('{"replies": [{"reply": "Turin"}]}')
    files = ("--documents", "wiki", "--questions", "q.jsonl")
    model = ("--model", "scripted", "--set", "model.script=script.yaml")

    def run():
        words = ("run", "-m", "full-context", *files, *model, "--keep-prompts")
        return here(*words, "--mlflow", "off", "--out", "out")

    return run


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("notes.md", "../home/key.md"),
        ("notes.png", "../home/key.md"),
        ("dead.md", "../home/nothing.md"),
        ("guide", "../home"),
        ("first.md", "second.md"),
        ("notes.md", ".git/config"),
        ("git", ".git"),
        ("all", ".."),
    ],
)
def test_a_link_that_leaves_the_folder_is_refused_by_name(ask, wiki, tmp_path, link, target):
    (wiki / ".second.md").symlink_to(tmp_path / "home/key.md")
    (wiki / link).symlink_to(".second.md" if link == "first.md" else target)
    ended = ask().checked(2)
    assert ended.stderr.startswith(f"error: {link}: is a link to something outside of wiki")
    assert not (tmp_path / "out").exists()


def test_a_link_to_a_page_of_the_folder_is_read(ask, wiki, tmp_path):
    (wiki / "copy.md").symlink_to("page.md")
    (wiki / "loop.md").symlink_to("loop.md")
    (wiki / "again").symlink_to(".", target_is_directory=True)
    wiki.rename(tmp_path / "real")
    wiki.symlink_to("real")
    ask().checked(0)
    (texts,) = (tmp_path / "out").rglob("requests.jsonl")
    assert texts.read_text().count("The office is in Turin.") == 2
