"""Rows of the synthetic world as a user's file of MuSiQue rows would have them."""

import functools
import json

from pocket.world.sample import sample


@functools.cache
def _line(number: int) -> str:
    return json.dumps(sample("musique", 0, tokens=400, purpose="evaluation", number=number).rows[0])


def musique_rows(count: int = 12):
    """The first `count` rows of a seed, about 400 tokens each; free to be changed."""
    return [json.loads(_line(number)) for number in range(count)]


def write_rows(path, rows):
    """Rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
