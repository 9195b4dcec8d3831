"""The door: names, problems, inputs of the wrong shape, and the sheet of one answer."""

import random
import re
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from harness import scorers
from harness.config import plugins, registry
from harness.errors import CannotRun, UnknownName, UserError
from harness.scorers import ScoreError, longbench_zh, rouge_score, score, score_answer
from harness.scorers.base import need
from harness.types import Gold, Shown, Support

FIRST_SLICE = [
    "longbench.qa_f1_score",
    "longbench.rouge_score",
    "hotpotqa.f1",
    "hotpotqa.em",
    "musique.answer_f1",
]
FIRST_SLICE += ["musique.answer_em", "flashrag.acc", "rouge_score.rougeL", "evidence_recall"]


@pytest.fixture(autouse=True)
def fresh_additions():
    scorers._installed_scorers.cache_clear()
    yield
    scorers._installed_scorers.cache_clear()


def without(monkeypatch, package):
    """Make `package` missing: unloaded, and not found on the path any more."""
    find = PathFinder.find_spec

    def find_others(name, *rest):
        return None if name.partition(".")[0] == package else find(name, *rest)

    monkeypatch.setattr(PathFinder, "find_spec", find_others)
    for loaded in [module for module in sys.modules if module.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, loaded)
    longbench_zh._jieba.cache_clear()
    rouge_score._f_measure_of.cache_clear()


def test_every_file_that_registers_scorers_is_known():
    files = {path.stem: path.read_text("utf-8") for path in Path(scorers.__path__[0]).glob("*.py")}
    registering = {
        name
        for name, text in files.items()
        if re.search("^(scorer = published|from .* import scorer as)", text, re.M)
    }
    assert registering - {"base"} == set(scorers._FILES)
    assert all(scorers.lookup(name).summary for name in scorers.names())


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("musique.anser_f1", "Did you mean 'musique.answer_f1'"),
        ("evidence-recal", "Did you mean 'evidence_recall'"),
        ("longbench.scorer", "does not judge a single answer"),
        ("hotpotqa.sp_f1", "does not judge a single answer"),
        ("triviaqa.normalize_answer", "does not judge a single answer"),
        (
            f"{__name__}:one_argument",
            "(too many positional arguments); it takes the prediction and the references",
        ),
        (
            f"{__name__}:FIRST_SLICE",
            "is not a callable object); it takes the prediction and the references",
        ),
    ],
)
def test_problems_are_one_sentence_each(name, part):
    registry.trust(name)
    (problem,) = scorers.problems([name])
    assert name in problem
    assert part in problem


@pytest.mark.parametrize(
    ("name", "package", "line"),
    [
        ("longbench.qa_f1_zh_score", "jieba", "pip install jieba"),
        ("longbench.rouge_zh_score", "jieba", "pip install jieba"),
        ("longbench.rouge_score", "rouge", "pip install rouge"),
        ("rouge_score.rougeL", "rouge_score", "pip install rouge-score"),
    ],
)
def test_a_missing_package_is_named_with_its_install_line(name, package, line, monkeypatch):
    without(monkeypatch, package)
    assert [problem for problem in scorers.problems([name]) if line in problem and name in problem]
    with pytest.raises(CannotRun, match=line):
        score(name, "text", ["text"])
    with pytest.raises(
        CannotRun, match=line
    ):  # a run must not go on with zeros for a package that is missing
        score_answer([name], "text", (), Gold(("text",)))


def test_a_version_names_the_package_it_rests_on(monkeypatch):
    assert scorers.version("hotpotqa.f1") == "1"
    assert scorers.version("longbench.rouge_score").startswith("1 (rouge 1.")
    assert scorers.version("rouge_score.rougeL").startswith("1 (rouge-score 0.")


@pytest.mark.parametrize(
    ("name", "prediction", "references", "extra", "part"),
    [
        ("hotpotqa.f1", "a", "a", {}, "references must be a list"),
        ("hotpotqa.f1", "a", [], {}, "no reference"),
        ("hotpotqa.f1", None, ["a"], {}, "prediction must be a string"),
        ("hotpotqa.f1", "a", [["a"]], {}, "every reference must be a string"),
        (
            "hotpotqa.f1",
            "a",
            ["a"],
            {"dataset": "qasper"},
            "takes no dataset; its extra inputs: none",
        ),
        (
            "longbench.code_sim_score",
            "a",
            ["a"],
            {"bakend": "difflib"},
            "takes no bakend; its extra inputs: backend",
        ),
        ("longbench.code_sim_score", "a", ["a"], {"backend": "rapidfuzz"}, "backend must be"),
        ("longbench.classification_score", "a", ["a"], {}, "needs all_classes"),
        ("longbench.scorer", ["a"], [["a"]], {}, "needs dataset"),
        ("longbench.scorer", ["a"], [["a"]], {"dataset": "trec"}, "needs all_classes"),
        ("longbench.scorer", ["a"], [["a"]], {"dataset": "hotpot"}, "no data set 'hotpot'"),
        ("longbench.scorer", [], [], {"dataset": "qasper"}, "nothing to average"),
        ("longbench.scorer", ["a"], [["a"], ["b"]], {"dataset": "qasper"}, "1 predictions but 2"),
        ("longbench.scorer", "a", [["a"]], {"dataset": "qasper"}, "prediction must be a list"),
        ("longbench.scorer", ["a"], ["a"], {"dataset": "qasper"}, "list of lists"),
        (
            "longbench.scorer",
            [1],
            [["a"]],
            {"dataset": "qasper"},
            "every prediction must be a string",
        ),
        (
            "longbench.scorer_e",
            ["a"],
            [["a"]],
            {"dataset": "qasper", "lengths": [1, 2]},
            "1 predictions but 2 lengths",
        ),
        ("longbench.retrieval_score", "3", ["Section 3"], {}, "must read like"),
        ("longbench.normalize_answer", "a", ["a"], {}, "takes no references"),
        ("flashrag.retrieval_precision_top1", [[]], [["a"]], {}, "without a retrieved text"),
        ("flashrag.retrieval_precision_top1", [["a"]], [["a"]], {"k": 2}, "takes no k"),
        ("hf_bleu.bleu4", "", ["a"], {}, "the prediction has no token"),
        ("hf_bleu.bleu1", "a", ["  "], {}, "the reference has no token"),
        ("hf_bleu.corpus_bleu4", ["a"], [[]], {}, "without a reference"),
        ("alce.str_em", "a", [], {}, "no reference"),
        ("alce.str_em", "a", ["a"], {}, "list of lists"),
        ("hotpotqa.sp_f1", ["A"], [["A", 0]], {}, "must be [title, sentence index]"),
    ],
)
def test_bad_inputs_raise_one_sentence(name, prediction, references, extra, part):
    with pytest.raises(ScoreError) as caught:
        score(name, prediction, references, **extra)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_message_does_not_quote_a_whole_document():
    with pytest.raises(ScoreError) as caught:
        score("hotpotqa.f1", ["word " * 10_000], ["word"])
    assert len(str(caught.value)) < 200


def test_an_extra_of_none_counts_as_not_given():
    assert score("hotpotqa.em", "a b", ["b"], all_classes=None, dataset=None) == 1.0


def test_an_unknown_scorer_is_no_score_error():
    with pytest.raises(UnknownName, match=r"Did you mean 'hotpotqa\.f1'"):
        score("hotpotqa.F1", "a", ["a"])
    with pytest.raises(UnknownName):
        score_answer(["nothing.like_it"], "a", (), Gold(("a",)))


def test_a_sheet_keeps_the_order_and_flags_what_is_no_plain_score():
    gold = Gold(("Paris",), (Support("d", 0, 10),))
    asked = [
        "hf_bleu.bleu4",
        "hotpotqa.em",
        "evidence_recall",
        "longbench.classification_score",
        "alce.str_em",
    ]
    sheet = score_answer(asked, "", (Shown("span", "d", 0, 5),), gold)
    assert list(sheet.scores) == asked
    assert sheet.scores == dict(zip(asked, (0.0, 0.0, 1.0, 0.0, 0.0), strict=True))
    assert list(sheet.flags) == ["hf_bleu.bleu4", "longbench.classification_score", "alce.str_em"]
    assert "no token" in sheet.flags["hf_bleu.bleu4"]
    assert "needs all_classes" in sheet.flags["longbench.classification_score"]
    assert "needs short_answers" in sheet.flags["alce.str_em"]


def test_evidence_recall_is_absent_without_marks():
    sheet = score_answer(["evidence_recall", "hotpotqa.em"], "a b", (), Gold(("b",)))
    assert sheet.scores == {"hotpotqa.em": 1.0}
    assert sheet.flags == {"evidence_recall": "no supporting marks"}


def test_a_missing_score_is_explained_by_what_is_missing():
    gold = Gold((), (Support("d", 0, 10),), {"whole_pages": True})
    sheet = score_answer(["evidence_recall", "assertions"], "a", (Shown("span", "d", 0, 5),), gold)
    assert sheet.flags == {
        "evidence_recall": "whole pages are marked, of which no passage is known",
        "assertions": "no assertion that can be checked",
    }


def test_extra_inputs_come_from_the_gold_by_name():
    extra = {
        "all_classes": ["City", "State"],
        "short_answers": [["Paris"], ["Rome"]],
        "level": "hard",
    }
    gold = Gold(("City",), (), extra)
    sheet = score_answer(["longbench.classification_score", "alce.str_em"], "City: Paris", (), gold)
    assert sheet.scores == {"longbench.classification_score": 1.0, "alce.str_em": 0.5}
    assert sheet.flags == {}


def shout(prediction, references, *, mark="!"):
    return float(any(prediction == reference + mark for reference in references))


def of_level(prediction, references, *, level, mark="!"):
    return float(level)


def one_argument(prediction):
    return 1.0


def test_a_scorer_whose_input_no_question_has_is_refused():
    own = f"{__name__}:of_level"
    registry.trust(own)
    golds = [Gold(("x",), (), {}), Gold(("x",), (), {"all_classes": ["x"]})]
    assert (
        scorers.missing_input_problems(["longbench.classification_score", "flashrag.em"], golds)
        == []
    )
    assert scorers.missing_input_problems([own], [*golds, Gold(("x",), (), {"level": 1})]) == []
    (sentence,) = scorers.missing_input_problems([own], golds)
    assert sentence == f"scorer '{own}' needs level, which no question has as an extra value"


def test_an_installed_package_can_add_a_scorer(monkeypatch):
    monkeypatch.setattr(plugins, "targets", lambda group: {"theirs.shout": f"{__name__}:shout"})
    assert "theirs.shout" in scorers.names()
    assert scorers.problems(["theirs.shout"]) == []
    assert score("theirs.shout", "a!", ["a"]) == 1.0
    assert score("theirs.shout", "a?", ["a"], mark="?") == 1.0
    assert "theirs.shout" not in scorers.project_scorers()


def test_an_added_scorer_cannot_take_a_name(monkeypatch):
    monkeypatch.setattr(plugins, "targets", lambda group: {"hotpotqa.f1": f"{__name__}:shout"})
    with pytest.raises(UserError, match=r"'hotpotqa\.f1'.*taken"):
        scorers.names()


def test_the_first_slice_has_no_problems_and_importing_the_door_loads_nothing_heavy():
    heavy = "torch numpy evaluate rouge rouge_score nltk jieba datasets pandas transformers"
    code = f"""
import sys
from harness import scorers
assert scorers.problems({FIRST_SLICE!r}) == []
assert len(scorers.names()) > 60
[scorers.lookup(name).summary for name in scorers.names()]
print([name for name in {heavy.split()!r} if name in sys.modules])
assert scorers.score("rouge_score.rougeL", "the cat", ["the cat sat"]) == 0.8
assert "nltk" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_a_scorer_leaves_the_global_generator_as_it_was(tmp_path, monkeypatch):
    (tmp_path / "draws_when_imported.py").write_text("import random\n\nNUMBER = random.random()\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = random.getstate()
    assert need("draws_when_imported").NUMBER < 1
    assert random.getstate() == before
