"""The note on scores that some answers lack, as a table shows it: for its own columns alone.

note = MissingScores.of(["right", "flashrag.em"], 2, 30)
note                       "right, flashrag.em: 28 of the 30 answered questions have a value"
notes_on({"right"}, [note])    ["right: 28 of the 30 answered questions have a value"]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence


class MissingScores(str):
    """A sentence on scores that some answers lack, which knows these scores.

    Attributes:
        names: The names of the scores.
        n_lacking: The number of answered questions that lack them.
        n_answered: The number of all answered questions.
    """

    names: Sequence[str]
    n_lacking: int
    n_answered: int

    @classmethod
    def of(cls, names: Sequence[str], n_lacking: int, n_answered: int) -> MissingScores:
        """The sentence on scores that some of the answered questions lack.

            (["right"], 2, 30)      -> "right: 28 of the 30 answered questions have a value"

        Args:
            names: The scores.
            n_lacking: The number of answered questions that lack them.
            n_answered: The number of all answered questions.
        """
        have = f"{n_answered - n_lacking} of the {n_answered} answered questions have a value"
        note = cls(f"{', '.join(names)}: {have}")
        note.names = names
        note.n_lacking = n_lacking
        note.n_answered = n_answered
        return note


def notes_on(columns: Collection[str], notes: Sequence[str]) -> list[str]:
    """The notes of a row; those on missing scores speak only of scores that are columns of the
    table.

    Args:
        columns: The names of the table's columns.
        notes: The notes, of which a MissingScores may become shorter or be left out.
    """
    kept: list[str] = []
    for note in notes:
        if not isinstance(note, MissingScores):
            kept.append(note)
            continue
        names = [name for name in note.names if name in columns]
        if names:
            kept.append(MissingScores.of(names, note.n_lacking, note.n_answered))
    return kept
