"""What a page opens with, and its tables as a workbook, through the installed command."""

import html
import re

import openpyxl
import pytest

from tests.apps.wiki import WikiApp

TEAM = "Who leads the team?"
PRICES = ("--set", "app.price.input=4", "app.price.output=16")


@pytest.fixture
def page(run, here, wiki):
    """Run two applications, one of which is wrong once, and write page.html and tables.xlsx;
    returns the header's text, a line an element."""

    def call(*more, names=("good", "bad"), **changes):
        good, bad = names
        with WikiApp(**changes).server() as one, WikiApp(wrong=(TEAM,), **changes).server() as two:
            run(f"{good}={one.url}/ask", *more)
            run(f"{bad}={two.url}/ask", *more)
        here("report", "results", "--html", "out/page.html", "--xlsx", "out/tables.xlsx").checked()
        text = (wiki / "out" / "page.html").read_text()
        (header,) = re.findall(r"<header>(.*?)</header>", text, re.S)
        lines = [
            html.unescape(line).strip() for line in re.sub(r"<[^>]*>", "\n", header).split("\n")
        ]
        return text, [line for line in lines if line]

    return call


def test_a_page_opens_with_questions_methods_verdict_quality_money_time_and_failures(page):
    _, lines = page(*PRICES, "currency=EUR", fields=("answer", "tokens"))
    text = "|".join(lines)
    assert text.startswith(
        "results|Questions|wiki, 5 questions about 6 documents|Methods|good, bad|good "
    )
    assert "scores highest of 2 methods, 100.0 of 100 points (right)" in text
    assert "|money|EUR per 1,000 questions|" in text
    row = text.partition("|of all|good|")[2].split("|")
    # 100 tokens read at 4 and 4 written at 16 a million: 0.000464 a question.
    assert (row[0], row[2]) == ("100.0", "0.464")
    assert re.fullmatch(r"[\d.]+ / [\d.]+", row[3])
    assert row[4] == "0 / 0 of 5"


def test_what_is_unknown_is_a_dash_and_a_failed_question_is_counted(page):
    _, lines = page(fields=("answer",), moods=["400"])
    row = "|".join(lines).rpartition("|good|")[2].split("|")
    assert row[2] == "–"
    assert row[4] == "1 / 0 of 5"
    assert "Money of bad, good is unknown: neither replies nor a price say it." in lines


def test_notes_are_folded_behind_their_number(page):
    text, _ = page(names=("good", "bad"))
    assert re.search(
        r'<details class="notes"><summary>\d+ notes</summary>\s*<p class="note">', text
    )
    outside = re.sub(r"<details.*?</details>", "", text.partition("<h3>Paired")[0], flags=re.S)
    assert "this test cannot find a difference" in text
    assert "this test cannot find a difference" not in outside


def test_a_row_that_was_repriced_alone_is_marked_where_the_page_opens(run, here, wiki):
    with WikiApp(fields=("answer", "tokens")).server() as server:
        run(f"old={server.url}/ask,new={server.url}/v2", *PRICES).checked()
        run(f"old={server.url}/ask", "--set", "app.price.input=8", "app.price.output=16").checked()
    here("report", "results", "--html", "page.html").checked()
    marks = re.findall(r'<p class="mark">(.*?)</p>', (wiki / "page.html").read_text())
    assert [mark.partition(";")[0] for mark in marks] == [
        "old: an application is priced 8 in, 16 out (the other run: 4 in, 16 out)"
    ]


def test_the_workbook_has_numbers_intervals_in_columns_and_no_formula(page, wiki):
    text, _ = page(*PRICES, fields=("answer", "tokens"))
    assert '<a class="download" href="tables.xlsx" download>' in text
    book = openpyxl.load_workbook(wiki / "out" / "tables.xlsx")
    assert book.sheetnames == ["summary", "all columns", "notes"]
    heads, good, bad = book["summary"].iter_rows(values_only=True)
    row = dict(zip(heads, bad, strict=True))
    assert (row["method"], row["quality"], row["failed"], row["left out"]) == ("bad", 0.8, 0, 0)
    assert row["quality low"] < 0.8 < row["quality high"]
    assert row["money per 1,000 questions"] == pytest.approx(0.464)
    assert dict(zip(heads, good, strict=True))["quality"] == 1
    everything = [cell.value for cell in book["all columns"][1]]
    assert {"right", "right.low", "right.high", "evidence_pages"} <= set(everything)
    assert book["summary"]["D2"].number_format == "0.0%"


def test_text_that_begins_like_a_formula_is_text(run, here, wiki):
    with WikiApp().server() as server:
        run(f"good={server.url}/ask").checked()
    (folder,) = (wiki / "results" / "wiki").iterdir()
    settings = (folder / "run.yaml").read_text()
    (folder / "run.yaml").write_text(settings.replace("name: good", 'name: "=1+1"'))
    here("report", "results", "--xlsx", "tables.xlsx").checked()
    cell = openpyxl.load_workbook(wiki / "tables.xlsx")["summary"]["B2"]
    assert (cell.value, cell.data_type) == ("=1+1", "s")


REFUSED = {
    "wide": (["--wide", "--xlsx", "t.xlsx"], "so --xlsx has no effect"),
    "paper": (["--paper", "--xlsx", "t.xlsx"], "--xlsx holds tables of runs"),
    "columns": (["--columns", "n", "--xlsx", "t.xlsx"], "--xlsx has every column"),
}


@pytest.mark.parametrize(("words", "sentence"), REFUSED.values(), ids=REFUSED)
def test_options_without_effect_on_a_workbook_are_refused(words, sentence, here):
    assert sentence in here("report", "results", *words).checked(2).stderr


def test_the_opening_has_each_application_beside_the_best_other_and_what_would_settle_it(page):
    _, lines = page(names=("good", "bad"))
    good, bad = (line for line in lines if re.match(r"(good|bad) minus", line))
    # Four of five questions alike, one point apart: by hand, se = 0.2, z = 1.96 + 0.84,
    # 5 (2.80 x 0.2 / 0.2)^2 = 39.2, so 40 questions in all and 35 more.
    assert good == (
        "good minus bad: 20.0 points (too few questions for an interval, p 1.000). These questions "
        "do not show which is better. If the difference is as large as it seems, about 35 more "
        "questions would mostly show it."
    )
    assert bad.startswith("bad minus good: -20.0 points (too few questions for an interval, p")


def test_equal_scores_name_no_number_of_questions(run, here, wiki):
    with WikiApp().server() as server:
        run(f"one={server.url}/ask,two={server.url}/v2").checked()
    here("report", "results", "--html", "page.html").checked()
    sentence = "They score alike, so that no number of questions can be named"
    assert (wiki / "page.html").read_text().count(sentence) == 2


def test_an_embedded_model_that_is_none_for_the_questions_is_named_where_the_page_opens(page):
    words = ("--method", "closed-book", "--model", "pocket-llama")
    _, lines = page(*words)
    assert (
        "closed-book: pocket-llama is trained on pocket/* only and is no model for questions about "
        "wiki: its scores show that a method runs, and nothing of its quality"
    ) in lines


def test_the_one_model_of_the_methods_beside_an_application_is_not_repeated(page):
    _, lines = page("--method", "closed-book", "--model", "pocket-llama")
    text = "|".join(lines)
    assert "good scores highest of the 2 methods that are no floor" in text
    assert "|closed-book|" in text
    assert "with pocket-llama" not in text


def test_all_pages_of_a_folder_are_one_document_and_intervals_are_over_questions(page, table, here):
    _, lines = page()
    assert "on 5 questions about the folder." in "|".join(lines)
    assert "With 5 questions no difference can be tested" in "|".join(lines)
    assert table()["good"]["documents"] == 6
    below = here("report", "results").checked().stdout
    assert "each of which every question may be about; intervals and tests are over" in below
