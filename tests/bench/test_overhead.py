"""bench.overhead: every question of every run is answered, and its cost is in milliseconds."""

from bench import overhead


def test_the_harness_alone_is_timed_with_several_requests(tmp_path):
    for size in (overhead.SHORT, 2 * overhead.SHORT):
        overhead.write_rows(tmp_path / f"{size}.jsonl", size)
    _, two_scorers = overhead.tools(tmp_path, peers=None)
    start, question = overhead.slope(
        two_scorers, tmp_path, 2 * overhead.SHORT, overhead.REQUESTS, parallel=4
    )
    assert start > 0.1
    # No lower limit: on a busy machine two starts differ by more than 200 questions cost.
    assert question < 50
