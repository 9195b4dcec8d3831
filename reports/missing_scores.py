"""The note on scores that some answers lack, as a table shows it: for its own columns alone.

note = MissingScores.from_names(["right", "flashrag.em"], Shortfall(2, 28, 30))
note                     "right, flashrag.em: means over 28 of 30 questions; 2 answers have no value"
notes_on_columns({"right"}, [note])
                         ["right: mean over 28 of 30 questions; 2 answers have no value"]
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from reports.number_formats import with_noun


@dataclass(frozen=True)
class Shortfall:
    """Over how many questions a mean is taken, where some answers have no value.

    Attributes:
        n_lacking: Answers without a value.
        n_counted: Questions that the mean is over; failed ones that count 0 are among them.
        n_questions: All questions of the run.
    """

    n_lacking: int
    n_counted: int
    n_questions: int


class MissingScores(str):
    """A sentence on scores that some answers lack, which knows these scores.

    Attributes:
        names: The scores.
        shortfall: The numbers of each of them.
    """

    names: Sequence[str]
    shortfall: Shortfall

    @classmethod
    def from_names(cls, names: Sequence[str], shortfall: Shortfall) -> MissingScores:
        """The sentence on scores that some answers lack.

            (["right"], Shortfall(2, 28, 30))
                -> "right: mean over 28 of 30 questions; 2 answers have no value"

        Args:
            names: The scores.
            shortfall: The numbers of each of them.
        """
        mean_or_means = "mean"
        if len(names) > 1:
            mean_or_means = "means"
        answers = "1 answer has no value"
        if shortfall.n_lacking != 1:
            answers = f"{shortfall.n_lacking} answers have no value"
        questions = f"{shortfall.n_counted} of {with_noun(shortfall.n_questions, 'question')}"
        note = cls(f"{', '.join(names)}: {mean_or_means} over {questions}; {answers}")
        note.names = names
        note.shortfall = shortfall
        return note


def notes_on_columns(columns: Collection[str], notes: Sequence[str]) -> list[str]:
    """The notes of a row; those on missing scores speak only of scores that are columns of the
    table.

    Args:
        columns: The names of the table's columns.
        notes: The notes, of which a MissingScores may become shorter or be left out.
    """
    shortened_notes: list[str] = []
    for note in notes:
        if not isinstance(note, MissingScores):
            shortened_notes.append(note)
            continue
        names = [name for name in note.names if name in columns]
        if names:
            shortened_notes.append(MissingScores.from_names(names, note.shortfall))
    return shortened_notes
