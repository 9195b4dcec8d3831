"""The core stays small enough to be read in an afternoon, and names nothing that is attached to it."""

import re

import pytest

from tests.docs.core import files, lines

ATTACHED = re.compile(
    r"shard|object.store|sibling|duel|record_stops|recorded stop|forecast|remote|mlflow|pocket|made.up", re.IGNORECASE
)


def test_the_core_is_twelve_files_of_2500_lines():
    assert 8 < len(files()) <= 12
    assert sum(map(lines, files())) <= 2500


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_a_file_of_the_core_names_nothing_that_is_attached(path):
    assert ATTACHED.findall(path.read_text(encoding="utf-8")) == []
