"""What counts as a right answer of a folder of one's own."""

import pytest

from harness.scorers import score

CASES = [
    ("The warranty is two years.", ["two years", "24 months"], 1),
    ("24 MONTHS!", ["two years", "24 months"], 1),
    ("It closes often.", ["ten"], 0),
    ("It is 17 euros.", ["7"], 0),
    ("It is 7.50 euros.", ["750"], 0),
    ("It is 1,000 euros.", ["1000"], 1),
    ("It is 7.", ["7"], 1),
    ("Led by the Beatles", ["Beatles"], 1),
    ("years two", ["two years"], 0),
    ("首都は東京です。", ["東京"], 1),
    ("In Zürich", ["zürich"], 1),
    ("It costs $", ["$"], 1),
    ("", ["a"], 0),
]


@pytest.mark.parametrize(("reply", "accepted", "value"), CASES)
def test_a_reply_with_the_words_of_an_accepted_answer_is_right(reply, accepted, value):
    assert score("right", reply, accepted) == value


@pytest.mark.parametrize(
    ("reply", "declined", "value"),
    [("The text does not say.", True, 1), ("Mira", True, 0), ("Mira", None, None)],
)
def test_without_an_accepted_answer_only_declining_can_be_right(reply, declined, value):
    assert score("right", reply, [], declined=declined) == value
