from harness.cost.usage import sum_phases, tokens_of


def test_keys_of_other_versions_that_are_no_numbers_are_left_out():
    phase = {
        "tokens_in": 2,
        "tokens_out": 1,
        "flops": {"full": 3.0},
        "served_by": "node 7",
        "odd": None,
    }
    usages = [
        {"search": phase, "answer": phase, "index": phase},
        {"answer": {**phase, "odd": {"a": 1}}},
    ]
    total = sum_phases(usages, "search", "answer")
    assert (tokens_of(total), total["flops"], total.get("served_by")) == (9, {"full": 9.0}, None)
