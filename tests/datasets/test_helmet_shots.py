"""HELMET's solved examples: drawn for each question by the hash of its id or words, each with its
passages (data.py, `load_qa`).

The expected draws are those of the authors' code, with `datasets`, on these made-up rows.
"""

import pytest

from harness.config.layers import Choices
from harness.config.resolve import resolve_dataset
from harness.datasets import load_once
from harness.datasets.few_shot import load_solved_examples
from harness.errors import UserError
from tests.datasets.support import write_lines

FILE = "nq-train-multikilt_1000_k3_dep6.jsonl"


def row(name, depth=0, **more):
    """A made-up row whose only passage names it; depth: makes it another row."""
    passages = [{"title": f"T {name}", "text": f"Text {depth}."}]
    return {"question": f"Who is {name}?", "answers": [f"A {name}"], "ctxs": passages, **more}


def shots_in(folder, asked, **sets):
    """The examples that helmet/nq shows for each of the rows `asked`, as text."""
    data = write_lines(folder / "nq.jsonl", asked)
    given = {f"dataset.{key}": value for key, value in sets.items()}
    config = resolve_dataset(Choices(dataset="helmet/nq", data=str(data), sets=given)).value
    shots = load_solved_examples(config)
    if shots is None:
        return []
    asked_rows = load_once.load_once(config.model_copy(update={"shots": 0}), None)
    return [shots.text_for(example.question) for example in asked_rows.examples]


def test_two_examples_with_their_passages_are_drawn_by_the_hash_of_the_question(tmp_path):
    write_lines(tmp_path / FILE, [row(n // 2, n % 2) for n in range(20)])
    first, second = shots_in(tmp_path, [row("x"), row("y")])
    assert first == (
        "\n\nExamples:\n\n"
        "Document (Title: T 5): Text 1.\n\nQuestion: Who is 5?\nAnswer: A 5\n\n"
        "Document (Title: T 9): Text 0.\n\nQuestion: Who is 9?\nAnswer: A 9\n"
    )
    assert second != first


def test_a_row_with_an_id_is_drawn_by_it_and_never_shown_itself(tmp_path):
    both = [row(n, id=n) for n in range(3)]
    write_lines(tmp_path / FILE, both)
    for number, shown in enumerate(shots_in(tmp_path, both)):
        assert f"Who is {number}?" not in shown
        assert shown.count("Document (Title:") == 2


def test_without_the_file_of_examples_a_sentence_says_so_and_zero_asks_without(tmp_path):
    with pytest.raises(UserError, match=f"no file '{FILE}', and none of that name"):
        shots_in(tmp_path, [row("x")])
    assert shots_in(tmp_path, [row("x")], shots=0) == []
