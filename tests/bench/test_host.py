"""python -m bench.host: what it says of questions in flight."""

from bench.host import paper_places


def test_the_papers_profile_has_many_questions_in_flight_on_one_card():
    assert paper_places() >= 32
