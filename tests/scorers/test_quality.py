"""A reply to a question with options: which one it names, and that one that names several is
wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pocket.datasets import load

from harness.config import presets
from harness.config.schema import DatasetConfig
from harness.scorers import ScoreError, problems, score, score_answer
from harness.scorers.quality import chosen_option

OPTIONS = ["Kelford", "Toren", "the flute Ardun", "in 1,924"]

CASES = [
    # a letter
    ("B", 1),
    ("b", 1),
    (" B.\n", 1),
    ("B)", 1),
    ("(B)", 1),
    ("(b)", 1),
    ("[B]", 1),
    ("**B**", 1),
    ("Option B", 1),
    ("The answer is B.", 1),
    ("Answer: B", 1),
    ("I choose (B), as the text says so.", 1),
    ("The text is clear.\nB. That was it", 1),
    # an option's text
    ("Toren", 1),
    ("toren.", 1),
    ("It was Toren, of course", 1),
    ("The flute Ardun", 2),
    ("flute ardun", 2),
    ("in 1924", 3),
    # both, and they agree
    ("(B) Toren", 1),
    ("B. Toren", 1),
    ("C: the flute Ardun", 2),
    # none
    ("", None),
    ("Mirel", None),
    ("E", None),
    ("(E)", None),
    ("Torenford", None),  # a name inside a longer one is another name
    ("A man of Mirel", None),  # an article is no letter
    ("The answer is a secret", None),
    ("Plan B was never tried", None),
    # several
    ("(A) or (B)", None),
    ("Kelford or Toren", None),
    ("(A) Toren", None),
    ("B. Toren, not Kelford", None),
    ("A\nB", None),
]


@pytest.mark.parametrize(("reply", "option"), CASES)
def test_which_option_a_reply_names(reply, option):
    assert chosen_option(reply, OPTIONS) == option
    for at, right in enumerate(OPTIONS):
        assert score("quality.accuracy", reply, [right], all_classes=OPTIONS) == float(option == at)


NESTED = [
    (["Toren", "Toren and Mirel"], "Toren and Mirel", 1),
    (["Toren", "Toren and Mirel"], "It was Toren", 0),
    (["Toren", "Toren and Mirel"], "Toren and Mirel. No: Toren", None),
    (["The end", "the end."], "the end.", 1),  # letter for letter it is one of them
    (["The end", "the end."], "The end!", None),
    (["A", "the"], "the", 1),  # nothing is left of them without articles
    (["A", "B", "C", "D"], "B", 1),  # options may be letters themselves
]


@pytest.mark.parametrize(("options", "reply", "option"), NESTED)
def test_options_that_contain_each_other(options, reply, option):
    assert chosen_option(reply, options) == option


@given(
    st.permutations(OPTIONS),
    st.integers(0, 3),
    st.sampled_from(["{l}", "({l})", "{l}.", "{t}", "({l}) {t}"]),
)
def test_every_way_to_name_the_right_one_is_right(options, at, form):
    reply = form.format(l="ABCD"[at], t=options[at])
    assert score("quality.accuracy", reply, [options[at]], all_classes=options) == 1.0
    assert score("quality.accuracy", reply, [options[at - 1]], all_classes=options) == 0.0


def test_a_reference_that_is_no_option():
    with pytest.raises(
        ScoreError, match=r"the reference \['Mirel'\] is none of the options \['Kelford', "
    ):
        score("quality.accuracy", "B", ["Mirel"], all_classes=OPTIONS)
    with pytest.raises(ScoreError, match="quality.accuracy needs all_classes"):
        score("quality.accuracy", "B", ["Toren"])
    assert problems(["quality.accuracy"]) == []


def test_a_record_of_the_made_up_data_set_takes_its_options():
    values = presets.read("datasets", "pocket/quality")[-1][1]
    assert "quality.accuracy" in values["scorers"]
    small = {**values["options"], "tokens": 400, "questions": 1}
    example = load(DatasetConfig(**{**values, "options": small})).examples[0]
    right = example.question.options.index(example.gold.answers[0])
    for at in range(4):
        sheet = score_answer(["quality.accuracy"], f"({'ABCD'[at]})", [], example.gold)
        assert (sheet.scores, sheet.flags) == ({"quality.accuracy": float(at == right)}, {})
