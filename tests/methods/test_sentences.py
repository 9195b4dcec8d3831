"""Where sentences end, case by case; "|" stands between two sentences."""

import pytest

from methods.packing import sentences
from methods.sentences import sentence_ends

CASES = [
    "J. R. Smith wrote it.| He left.",
    "J.R.R. Tolkien and George W. Bush met.| They ate.",
    "Samuel L. Jackson (born J. A. Orb) acted.",
    "Dr. No and Mr. and Mrs. Orb came.| St. Mary did not.",
    "It stands in Main St.| The mill is old.",
    "The U.S. Supreme Court met in the U.S.| It ruled.",
    "He has a Ph.D. from Orb.| She has a B.A.| In 1990 both left.",
    "At 5 p.m. Ann came.| At 6 a.m.| She left.",
    "See No. 5, Vol. 3, pp. 7 and Fig. 2.| No.| I said no. 5 was it.",
    "He said no.| She left.",
    "Towns, e.g. Orb, i.e. the old one, cf. Tal vs. Kel, lie north.",
    "Apples, pears, etc.| Bananas too, etc. and so on.",
    "Acme Inc. and Orb Ltd. merged.| Martin Luther King Jr. spoke.| They cheered Jr.| He smiled.",
    "Orb et al. (2020) and Tal et al. say so.",
    "On Jan. 3 it rained.| It was cold in Jan.| Snow fell.",
    "It cost 3.14 dollars at orb.com today.| Fine!| Really?| Yes...| perhaps.",
    'He said "Go."| She went.| (It was late.)| The end.',
    "This is plan B.| It works.| Ask Washington, D.C.| His house is there.",
    "Adams, J. Q., came c. 1800 with Lt. Col. Orb to Mt. Tal.",
    "Let x be y.| Note that z. B. and d. h. are not y.| So x is y.",
    "C. S. Lewis died.| W. E. B. Du Bois lived.| G. Will Orb wrote.",
    "\u5c71\u5f88\u9ad8\u3002|\u6cb3\u5f88\u957f\uff01|\u6d77\u5f88\u6df1\u3002",
    (
        "\u092a\u0941\u0932 \u092a\u0941\u0930\u093e\u0928\u093e \u0939\u0948\u0964| "
        "\u0928\u0926\u0940 \u0939\u0948\u0964"
    ),
    "A heading without a mark\n\n|A line that\nwraps, by Dr.\nOrb.| The end",
    "A name ends it: Mr.\n\n|Orb came.",
    "",
    " ",
    "It cost 3.5 (about 4.)| Fine",
    "Wait...| what?!| Yes",
    "see www.a.b/c.html.",
    "\u4f60\u597d\u3002|\u4ed6\u8bf4\uff1a\u201c\u8d70\uff01\u201d|\u597d",
    " .| .",
]


@pytest.mark.parametrize("case", CASES)
def test_sentences(case):
    text = case.replace("|", "")
    assert [text[a:b] for a, b in sentences(text)] == [
        part.strip() for part in case.split("|") if part.strip()
    ]


def test_each_line_ends_a_sentence_where_that_is_asked_for():
    text = "Dr. Orb came\nby Mr.\nTal. Then J. S. left."
    assert sorted(set(sentence_ends(text, lines=True))) == [12, 19, 24]
    assert list(sentence_ends(text, 13, 24, lines=True)) == [19]
