"""Agreement of two raters, by hand."""

import pytest

from harness.errors import UserError
from reports.judges import Agreement, agreement
from reports.labels import ONLY_RATER, read_labels


@pytest.mark.parametrize(
    ("a", "b", "share", "kappa"),
    [
        ("1100", "1000", 0.75, 0.5),
        ("10", "01", 0.0, -1.0),
        ("1010", "1010", 1.0, 1.0),
        ("1111", "1100", 0.5, 0.0),
        ("111", "111", 1.0, None),
        ("", "", None, None),
    ],
)
def test_agreement_by_hand(a, b, share, kappa):
    pairs = [(x == "1", y == "1") for x, y in zip(a, b, strict=True)]
    assert agreement(pairs, range(len(a))) == Agreement(len(a), share, kappa)


def test_kappa_of_several_ratings_by_hand():
    """Alike in 4 of 6; by chance (3 x 2 + 2 x 2 + 1 x 2) / 36 = 1 / 3."""
    found = agreement([*zip("111223", "112233", strict=True)], range(6))
    assert (found.share, found.kappa) == pytest.approx((4 / 6, 0.5))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.csv", "question_id,label\nq1,Yes\nq2,false\nq3,4\n"),
        (
            "labels.jsonl",
            '{"question_id": "q1", "label": true}\n{"question_id": "q2", "label": "no"}\n{"question_id": "q3", "label": 4}\n',
        ),
    ],
)
def test_labels_are_read_as_verdicts(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    found = read_labels(tmp_path / name, pytest.fail)
    assert found.labels_by_rater[ONLY_RATER] == {"q1": "yes", "q2": "no", "q3": "4"}


def test_a_row_without_a_label_is_named(tmp_path):
    (tmp_path / "labels.csv").write_text("question_id,label\nq1,yes\nq2,\n")
    with pytest.raises(UserError, match="row 2 needs question_id and label"):
        read_labels(tmp_path / "labels.csv", pytest.fail)
    with pytest.raises(UserError, match="cannot be read"):
        read_labels(tmp_path / "gone.csv", pytest.fail)
