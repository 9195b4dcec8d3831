"""The note on scores that some answers lack, as a table shows it: for its own columns alone.

note = MissingScores.of(["right", "flashrag.em"], 2)
note                       "right, flashrag.em are missing for 2 of the answered questions and ..."
notes_on({"right"}, [note])    ["right is missing for 2 of the answered questions and ..."]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence


class MissingScores(str):
    """The sentence, which knows its scores.

    Attributes:
        names: The scores.
        n_questions: Answered questions that lack them.
    """

    names: Sequence[str]
    n_questions: int

    @classmethod
    def of(cls, names: Sequence[str], count: int) -> MissingScores:
        """The sentence on scores that as many of the answered questions lack."""
        verb = "are"
        if len(names) == 1:
            verb = "is"
        note = cls(
            f"{', '.join(names)} {verb} missing for {count} of the answered questions and left out "
            "for them"
        )
        note.names = names
        note.n_questions = count
        return note


def notes_on(columns: Collection[str], notes: Sequence[str]) -> list[str]:
    """The notes of a row, without what they say on scores that are no columns of the table."""
    kept: list[str] = []
    for note in notes:
        if not isinstance(note, MissingScores):
            kept.append(note)
            continue
        names = [name for name in note.names if name in columns]
        if names:
            kept.append(MissingScores.of(names, note.n_questions))
    return kept
