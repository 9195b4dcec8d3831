"""Labels of two people: the sheet that they fill, and what it says of a judge."""

import json
from pathlib import Path

import pytest
from openpyxl import Workbook, load_workbook

from harness.storage.run_folder import read_run

APP = """
def answer(question):
    number = int(question.split()[-1])
    return {{"answer": f"{start}{{number}}", "contexts": [f"it is {{number}}"]}}
"""
N = 40


@pytest.fixture
def answered(here, configs, tmp_path):
    """Two runs of 40 questions about 40 pages; answers begin with "=" and with "word"."""
    pages = tmp_path / "pages"
    pages.mkdir()
    rows = []
    for number in range(N):
        (pages / f"p{number}.txt").write_text(f"It is {number}.")
        row = {"id": f"q{number}", "question": f"What is {number}", "document": f"p{number}"}
        rows.append(json.dumps({**row, "answer": f"word{number}"}))
    Path("forty.jsonl").write_text("\n".join(rows))
    for name, start in (("formulas", "=1+"), ("words", "word")):
        (configs / f"{name}.py").write_text(APP.format(start=start))
        here(
            "run", "--app", f"{name}={name}:answer", "--documents", str(pages),
            "--questions", "forty.jsonl", "--mlflow", "off", "-q",
        ).checked()  # fmt: skip
    (folder,) = Path("results").iterdir()
    return {path.name.split("--")[0]: path for path in folder.iterdir()}


@pytest.fixture
def judged(answered, here):
    """The folder of the answers that are words, which a judge calls right but for each tenth."""
    rules = [
        {"when": f"Answer to judge: word{number}\n", "reply": "no"} for number in range(0, N, 10)
    ]
    Path("script.yaml").write_text(json.dumps({"replies": [*rules, {"reply": "yes"}]}))
    folder = answered["words"]
    script = ("--model", "scripted", "--set", "model.script=script.yaml")
    here("judge", str(folder), *script).checked()
    return folder


def fill(sheet, labels):
    """Write labels into a sheet: item -> what each of the two people says."""
    book = load_workbook(sheet)
    page = book.worksheets[0]
    for line in page.iter_rows(min_row=2):
        line[5].value, line[6].value = labels.get(line[0].value, (None, None))
    book.save(sheet)


def lines_of(sheet):
    heads, *lines = load_workbook(sheet).worksheets[0].iter_rows()
    return [cell.value for cell in heads], lines


def number_of(line):
    return int(line[1].value.split()[-1])


def test_a_sheet_names_no_method_and_holds_text_only(answered, here):
    done = here("judge", *map(str, answered.values()), "--sheet", "sheet.xlsx").checked()
    assert "80 answers" in done.stdout
    heads, lines = lines_of("sheet.xlsx")
    assert heads == [
        "item",
        "question",
        "accepted answers",
        "answer",
        "contexts",
        "person 1",
        "person 2",
    ]
    assert {cell.data_type for line in lines for cell in line if cell.value is not None} == {"s"}
    answers = [line[3].value for line in lines]
    assert sorted(answers) == sorted([f"=1+{n}" for n in range(N)] + [f"word{n}" for n in range(N)])
    assert {line[4].value == f"it is {number_of(line)}" for line in lines} == {True}
    text = " ".join(str(cell.value) for line in lines for cell in line)
    assert "formulas" not in text.replace("formulas.py", "")
    assert "application" not in text
    # The two methods stand mixed, in the same order each time.
    first_half = sum(answer.startswith("=") for answer in answers[:N])
    assert 10 < first_half < 30
    here("judge", *map(str, answered.values()), "--sheet", "again.xlsx").checked()
    assert [line[0].value for line in lines_of("again.xlsx")[1]] == [
        line[0].value for line in lines
    ]


def test_a_filled_sheet_gives_agreement_and_the_share_that_people_call_right(judged, here):
    here("judge", str(judged), "--sheet", "sheet.xlsx").checked()
    _, lines = lines_of("sheet.xlsx")
    labels = {}
    for line in lines[:30]:
        number = number_of(line)
        first = "yes" if number % 5 else "no"
        second = first
        if line in lines[:3]:
            second = {"yes": "no", "no": "yes"}[first]
        labels[line[0].value] = (first, second)
    fill("sheet.xlsx", labels)
    done = here("judge", str(judged), "--labels", "sheet.xlsx", "--json").checked()
    result = json.loads(done.stdout)
    pairs = {(pair["a"], pair["b"]): pair for pair in result["agreement"]}
    between = pairs["person 1", "person 2"]
    assert between["n"] == 30
    assert between["low"] < between["kappa"] < between["high"]
    right = [number_of(line) % 5 > 0 for line in lines[:30]]
    by_judge = [number_of(line) % 10 > 0 for line in lines[:30]]
    alike = sum(one == other for one, other in zip(right, by_judge, strict=True))
    assert pairs["judge.scripted", "person 1"]["share"] == pytest.approx(alike / 30)
    (people,) = result["people"]
    assert (people["n"], people["labelled"], people["judge.mean"]) == (40, 30, 0.9)
    second = [labels[line[0].value][1] == "yes" for line in lines[:30]]
    label_mean = (sum(right) + sum(second)) / 60
    assert people["labels.mean"] == pytest.approx(label_mean)
    # The judge's mean of all, and what it errs by where people have a label.
    assert people["joined.mean"] == pytest.approx(0.9 + label_mean - sum(by_judge) / 30)
    assert people["joined.low"] < people["joined.mean"] < people["joined.high"]
    text = here("judge", str(judged), "--labels", "sheet.xlsx").checked().stdout
    assert "both (prediction-powered by 30 labels)  40" in text
    assert "labels alone" in text


def test_labels_do_not_change_a_run(judged, here):
    before = (judged / "records.jsonl").read_bytes()
    here("judge", str(judged), "--sheet", "sheet.xlsx").checked()
    items = [line[0].value for line in lines_of("sheet.xlsx")[1]]
    fill("sheet.xlsx", {items[0]: ("yes", None)})
    here("judge", str(judged), "--labels", "sheet.xlsx").checked()
    assert (judged / "records.jsonl").read_bytes() == before
    assert read_run(judged).records


def test_mistakes_of_a_sheet_are_one_sentence(judged, here):
    words = ("judge", str(judged))
    here(*words, "--sheet", "sheet.xlsx").checked()
    assert "is there already" in here(*words, "--sheet", "sheet.xlsx").checked(2).stderr
    assert "should end in .xlsx" in here(*words, "--sheet", "sheet.csv").checked(2).stderr
    both = here(*words, "--sheet", "new.xlsx", "--model", "scripted").checked(2)
    assert "leave --model and --labels out" in both.stderr
    labels = (*words, "--labels", "sheet.xlsx")
    assert "no row has a label yet" in here(*labels).checked(2).stderr
    item = lines_of("sheet.xlsx")[1][0][0].value
    fill("sheet.xlsx", {item: ("perhaps", None)})
    assert "row 2 says 'perhaps'; write yes or no" in here(*labels).checked(2).stderr
    Path("sheet.xlsx").write_text("no workbook")
    assert "cannot be read as a workbook" in here(*labels).checked(2).stderr
    other = Workbook()
    other.active.append(["a", "b"])
    other.save("sheet.xlsx")
    assert "has no column 'item'" in here(*labels).checked(2).stderr
