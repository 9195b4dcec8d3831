r"""A table for a paper: booktabs, short heads, the best value of a column bold and the second
underlined.

    \begin{table}[t]
      \caption{musique, Llama-3.1-8B. ...}  \label{tab:musique-llama-3-1-8b}     title and how values are marked
      \begin{tabular}{lrr} \toprule Method & flashrag.f1 & Tokens \\ \midrule ... \bottomrule \end{tabular}
      {\footnotesize costs are per question. ...\par}                            notes of every row
      {\footnotesize [1] 2 of 20 questions failed\par}                           notes of single rows
    \end{table}

A comment above the table holds what is no text for a paper: sentences that name a command, and
notes of single rows where no column of notes was asked for.

It needs the packages booktabs, graphicx (a table wider than the column is scaled to it) and fontenc
with T1.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "†": r"$^{\dagger}$",
        "×": r"$\times$",
        "·": r"$\cdot$",
        "…": r"\dots{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
    }
)
_HEADING_WORDS = {"tflops": "TFLOPs", "n": "n", "p": "p"}
_COST_FAMILIES = ("tflops", "tokens", "ratio", "money", "seconds")
_COMMAND = r"(?:\bharness [a-z]|(?<![\w-])--[a-z])"
_STYLE_OF_RANK = {1: r"\textbf{%s}", 2: r"\underline{%s}"}


_ARGUMENT_STARTS = ("[", "*")
"""They would be read as an argument of the line break before them."""


@dataclass(frozen=True)
class PaperTable:
    """A table before it is LaTeX. All texts are plain and of one line.

    Args:
        title: What all rows share.
        headings: The headings of the columns.
        rows: The cells of each row, as many as headings.
        is_numeric: For each column, whether it holds numbers.
        ranks: (row, column) -> 1 for the best value of the column, 2 for the second.
        common_notes: Notes of all rows.
        footnotes: Notes that the last column refers to by marks.
        unchanged_headings: Headings that stay as they are.
        comments: Lines above the table, which LaTeX does not print.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_numeric: Sequence[bool]
    ranks: Mapping[tuple[int, int], int]
    common_notes: Sequence[str] = ()
    footnotes: Sequence[str] = ()
    unchanged_headings: Collection[str] = ()
    comments: Sequence[str] = ()


def escape(text: str) -> str:
    r"""A text of one line with LaTeX's special characters escaped: "50 %" -> "50 \%"."""
    escaped = text.translate(_ESCAPES)
    return escaped.replace("--", "-{}-").replace("–", "--")  # "--set" is no dash


def latex_table(paper: PaperTable) -> str:
    """A LaTeX table with its caption, and with its notes below it, as text.

    Sentences of notes that name a command of the harness stand above it as comments. It is shrunk
    to the line where it is wider.
    """
    split_notes = [_split_commands(note) for note in paper.common_notes]
    notes = [split.for_paper for split in split_notes if split.for_paper]
    commands = [split.with_commands for split in split_notes if split.with_commands]
    lines = [
        r"% needs \usepackage{booktabs,graphicx} and \usepackage[T1]{fontenc}",
        *(f"% {line}" for line in (*commands, *paper.comments)),
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{_caption(paper)}}}",
        rf"\label{{tab:{_label(paper.title)}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{_alignment(paper.is_numeric)}}}",
        r"\toprule",
        _row(map(escape, short_headings(paper.headings, paper.unchanged_headings))),
        r"\midrule",
        *_body(paper),
        r"\bottomrule",
        r"\end{tabular}}",
        *map(_note_line, (*notes, *paper.footnotes)),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


class _SplitNote(NamedTuple):
    """A note in two parts.

    Attributes:
        for_paper: The note without the sentences and brackets that name a command or option.
        with_commands: The sentences that do.
    """

    for_paper: str
    with_commands: str


def _caption(paper: PaperTable) -> str:
    """The caption: the title, and how the best values are marked; "" for neither."""
    sentences = []
    if paper.title:
        sentences.append(paper.title.replace(" · ", ", ").rstrip("."))
    if paper.ranks:
        sentences.append("Best values are bold, second ones underlined")
    if not sentences:
        return ""
    return ". ".join(map(escape, sentences)) + "."


def _label(title: str) -> str:
    """The label of a table by its title: "musique-llama-8b" for "musique · llama-8b"."""
    return re.sub("[^a-z0-9]+", "-", title.lower()).strip("-") or "runs"


def _alignment(is_numeric: Sequence[bool]) -> str:
    """A letter a column: "r" for numbers, "l" for texts; [False, True, True] -> "lrr"."""
    letters = {True: "r", False: "l"}
    return "".join(letters[is_number] for is_number in is_numeric)


def _body(paper: PaperTable) -> list[str]:
    """The rows of the table as lines of LaTeX."""
    lines = []
    for row_number, row in enumerate(paper.rows):
        cells = []
        for column_number, (cell, is_number) in enumerate(zip(row, paper.is_numeric, strict=True)):
            rank = paper.ranks.get((row_number, column_number))
            if is_number:
                cells.append(_number_cell(cell, rank))
            else:
                cells.append(_style_by_rank(escape(cell), rank))
        lines.append(_guard_line_start(_row(cells)))
    return lines


def _row(cells: Iterable[str]) -> str:
    r"""Cells as a row of a LaTeX table with the end of its line: "bm25 & 41.3 \\"."""
    return " & ".join(cells) + r" \\"


def _note_line(note: str) -> str:
    """A note in small type below the table, as a line of LaTeX."""
    return rf"{{\par\footnotesize\raggedright {_guard_line_start(escape(note))}\par}}"


def _split_commands(note: str) -> _SplitNote:
    """A note split into the text for a paper and the sentences that name a command or option.

    "2 failed (see harness trace). Run harness judge."
        -> _SplitNote("2 failed.", "2 failed (see harness trace). Run harness judge.")
    """
    sentences = re.split(r"(?<=[.;]) ", note)
    plain = []
    commands = []
    for sentence in sentences:
        without_bracket = re.sub(rf" \([^()]*{_COMMAND}[^()]*\)", "", sentence)
        if not re.search(_COMMAND, without_bracket):
            plain.append(without_bracket)
        if re.search(_COMMAND, sentence):
            commands.append(sentence)
    return _SplitNote(" ".join(plain).rstrip(";"), " ".join(commands))


def short_headings(headings: Sequence[str], unchanged_headings: Collection[str] = ()) -> list[str]:
    """Headings as a paper has them: "tflops.search" -> "TFLOPs search".

    A score keeps the name of its scorer, as in captions: there are several F1. Two headings that
    would be the same stay as they are.

    Args:
        headings: The headings of all columns.
        unchanged_headings: Those of them that are names, of data sets, and stay as they are.
    """
    shortened = []
    for heading in headings:
        if heading in unchanged_headings:
            shortened.append(heading)
        else:
            shortened.append(_short_heading(heading))
    counts = Counter(shortened)
    distinct = []
    for heading, short in zip(headings, shortened, strict=True):
        if counts[short] > 1:
            distinct.append(heading)
        else:
            distinct.append(short)
    return distinct


def _short_heading(heading: str) -> str:
    """A heading as a paper has it: "tflops.search" -> "TFLOPs search", "texts_cut" -> "Texts cut"; a
    score such as "flashrag.f1" stays as it is."""
    family, dot, part = heading.partition(".")
    if dot and family in _COST_FAMILIES:
        return f"{_heading_word(family)} {part}"
    if dot:
        return heading
    first_word, *later_words = re.split("[_ ]", heading)
    later_words = [_HEADING_WORDS.get(word, word) for word in later_words]
    return " ".join([_heading_word(first_word), *later_words])


def _heading_word(word: str) -> str:
    """A word of a heading as papers write it: "TFLOPs" for "tflops", "Method" for "method"."""
    return _HEADING_WORDS.get(word, word[:1].upper() + word[1:])


def _number_cell(cell: str, rank: int | None) -> str:
    r"""A number with its interval in LaTeX, the interval in small type: "41.3 [36.0, 46.9]" ->
    "41.3 {\scriptsize [36.0, 46.9]}".

    Args:
        cell: The number as text.
        rank: 1 for the best value of its column, 2 for the second, None for any other.
    """
    value, bracket, interval_rest = cell.partition(" [")
    text = _style_by_rank(_with_minus(escape(value)), rank)
    if not bracket:
        return text
    return rf"{text} {{\scriptsize [{_with_minus(escape(interval_rest))}}}"


def _with_minus(text: str) -> str:
    """The text with minus signs in place of hyphens before numbers: "-7.1" -> "$-$7.1"."""
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", text)


def _style_by_rank(text: str, rank: int | None) -> str:
    """The text bold for rank 1, underlined for 2."""
    if rank is None:
        return text
    return _STYLE_OF_RANK[rank] % text


def _guard_line_start(line: str) -> str:
    """The line with "{}" in front where it starts with "[" or "*".

    LaTeX would read these as an argument of the line break before them.
    """
    if line.startswith(_ARGUMENT_STARTS):
        return "{}" + line
    return line
