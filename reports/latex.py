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
from collections.abc import Collection, Mapping, Sequence

_ESCAPED = {
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
    **{c: "\\" + c for c in "&%$#_{}"},
}
_WORDS = {"tflops": "TFLOPs", "n": "n", "p": "p"}
_COSTS = ("tflops", "tokens", "ratio", "money", "seconds")
_COMMAND = r"(?:\bharness [a-z]|(?<![\w-])--[a-z])"
_STYLES = {1: r"\textbf{%s}", 2: r"\underline{%s}"}


def escape(text: str) -> str:
    """Text of one line with LaTeX's special characters escaped."""
    dashes = "".join(_ESCAPED.get(c, c) for c in text).replace(
        "--", "-{}-"
    )  # not a ligature: "--set"
    return dashes.replace("–", "--")


def table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    ranks: Mapping[tuple[int, int], int],
    notes: tuple[Sequence[str], Sequence[str]],
    names: Collection[str] = (),
    comments: Sequence[str] = (),
) -> str:
    """A LaTeX table with its caption, and with its notes below it. All texts are plain and of one
    line.

    numeric: for each column, whether it holds numbers; ranks: (row, column) -> 1 for the best
    value, 2 for the second;
    notes: those of all rows, and those with a mark in the last column; names: heads that stay as
    they are; comments: lines above the table.
    """
    style = ["Best values are bold, second ones underlined"] if ranks else []
    plain, commands = zip(*map(_without_commands, notes[0]), strict=True) if notes[0] else ((), ())
    caption = [text.rstrip(".") for text in (title.replace(" · ", ", "), *style) if text]
    label = re.sub("[^a-z0-9]+", "-", title.lower()).strip("-") or "runs"
    body = [
        " & ".join(
            _latex_cell(cell, number, ranks.get((i, k)))
            for k, (cell, number) in enumerate(zip(row, numeric, strict=True))
        )
        for i, row in enumerate(rows)
    ]
    columns = "".join("r" if number else "l" for number in numeric)
    lines = [
        r"% needs \usepackage{booktabs,graphicx} and \usepackage[T1]{fontenc}",
        *(f"% {line}" for line in (*filter(None, commands), *comments)),
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{'. '.join(map(escape, caption))}{'.' if caption else ''}}}",
        rf"\label{{tab:{label}}}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(map(escape, short_heads(heads, names))) + r" \\",
        r"\midrule",
        *(_guard_line_start(line) + r" \\" for line in body),
        r"\bottomrule",
        r"\end{tabular}}",
        *(
            rf"{{\par\footnotesize\raggedright {_guard_line_start(escape(note))}\par}}"
            for note in (*filter(None, plain), *notes[1])
        ),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _without_commands(note: str) -> tuple[str, str]:
    """(the note without the sentences and brackets that name a command or option, the sentences
    that do)."""
    parts = re.split(r"(?<=[.;]) ", note)
    plain = [re.sub(rf" \([^()]*{_COMMAND}[^()]*\)", "", part) for part in parts]
    kept = [part for part in plain if not re.search(_COMMAND, part)]
    return " ".join(kept).rstrip(";"), " ".join(part for part in parts if re.search(_COMMAND, part))


def short_heads(heads: Sequence[str], names: Collection[str] = ()) -> list[str]:
    """Heads as a paper has them: "TFLOPs search" for "tflops.search". A score keeps the name of its
    scorer, as in captions: there are several F1. Two that would be the same stay as they are.

    names: heads that are names, of data sets.
    """
    short = []
    for head in heads:
        family, dot, part = head.partition(".")
        if head in names or (dot and family not in _COSTS):
            short.append(head)
        elif dot:
            short.append(f"{_head_word(family)} {part}")
        else:
            first, *later = re.split("[_ ]", head)
            later_words = (_WORDS.get(word, word) for word in later)
            short.append(" ".join([_head_word(first), *later_words]))
    count = Counter(short)
    return [whole if count[text] > 1 else text for whole, text in zip(heads, short, strict=True)]


def _head_word(word: str) -> str:
    return _WORDS.get(word, word[:1].upper() + word[1:])


def _latex_cell(cell: str, number: bool, rank: int | None) -> str:
    """A cell in LaTeX, its interval in small type; rank 1 is bold, 2 underlined, None plain."""
    value, bracket, ends = cell.partition(" [") if number else (cell, "", "")
    value, ends = escape(value), escape(ends)
    if number:
        value, ends = (re.sub(r"(?<![\w-])-(?=\d)", "$-$", text) for text in (value, ends))
    value = _STYLES[rank] % value if rank else value
    return value + (rf" {{\scriptsize [{ends}}}" if bracket else "")


def _guard_line_start(line: str) -> str:
    """Guard a line's start: "[" or "*" there would be read as an argument of the line break before
    it."""
    return "{}" + line if line.startswith(("[", "*")) else line
