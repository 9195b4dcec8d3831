"""Markers of a chat template: the token sequences that begin and end turns, and how text from data is kept off them.

A marker is one token (a special token, or an added token that the template uses) or a string in ordinary tokens
(Llama-2's `[INST]`). The check runs on the tokens themselves, so it also sees what a normaliser made of the text. Text
without a marker keeps its tokens. docs/security.md#forged-turns.
"""

import itertools
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from tokenizers import Tokenizer

from harness.errors import CannotRun, ForgedTurn, printable
from harness.llm.template import Pieces

Token = tuple[int, tuple[int, int]]  # a token's id and the range of characters it covers

_BRACKETED = r"<<[^<>\s]+>>|<[^<>\s]+>|\[[^\[\]\s]+\]"
_ROUNDS = 8  # a replacement rarely spells another marker; a text that needs more rounds than this is refused


def spelled_markers(pieces: Pieces, added: Iterable[str]) -> set[str]:
    """Markers that the template spells in ordinary tokens: strings in brackets, and what else names a role.

    added: contents of the tokenizer's added tokens. A bare word beside a marker ("user" behind "<|im_start|>") is none,
    because documents are full of such words and the marker beside it protects the turn.
    """
    known = sorted({content for content in added if content.strip()}, key=len, reverse=True)
    tokens = re.compile("|".join(map(re.escape, known))) if known else re.compile(r"(?!)")
    bracketed = re.compile(_BRACKETED)
    markers: set[str] = set()
    for piece in (pieces.begin, pieces.mid, pieces.next):
        for run in tokens.split(piece):
            markers.update(bracketed.findall(run))
    for line in f"{pieces.mid}\n{pieces.next}".split("\n"):
        runs = [part for run in tokens.split(line) for part in bracketed.split(run)]
        markers.update(
            run.strip() for run in runs if re.search(r"\w", run) and not (len(runs) > 1 and run.strip().isalnum())
        )
    return {_with_space(marker, pieces) if marker.isalnum() else marker for marker in markers}


def _with_space(word: str, pieces: Pieces) -> str:
    """The marker `word`, a bare word such as a role, with the white space around it in the template."""
    match = re.search(rf"\s*(?<!\w){re.escape(word)}(?!\w)\s*", f"{pieces.mid}\0{pieces.next}")
    return match[0] if match else word


class _Folding(dict[int, str]):
    """A str.translate table that normalises as tokenizers do: no accents, nothing invisible; lower: in lower case."""

    def __init__(self, lower: bool) -> None:
        super().__init__()
        self._lower = lower

    def __missing__(self, code: int) -> str:
        signs = unicodedata.normalize("NFKD", chr(code))
        kept = [c for c in signs if c in "\t\n\r" or unicodedata.category(c) not in ("Mn", "Cf", "Cc")]
        self[code] = folded = "".join(kept).lower() if self._lower else "".join(kept)
        return folded


_FOLD, _FOLD_CASE = _Folding(lower=False), _Folding(lower=True)


def break_in_text(text: str, markers: Iterable[str]) -> tuple[str, int]:
    """Put a space behind the first character of each marker: "a<|end|>" -> ("a< |end|>", 1), the number of spaces.

    For servers, which encode texts themselves. Also breaks up what a normaliser would turn into a marker: characters of
    other widths, invisible ones, accents, and, unless the marker begins with a letter, other cases.
    """
    folded = {marker.translate(_folding_of(marker)) for marker in markers if marker.strip()}
    longer = sorted(marker for marker in folded if len(marker.strip()) > 1)
    count, at = 0, [0]
    while at:
        at = sorted({i for fold in (_FOLD, _FOLD_CASE) for i in _break_points(text, longer, fold)})
        text = " ".join(text[a:b] for a, b in itertools.pairwise([0, *at, len(text)]))
        count += len(at)
    return text, count


def _folding_of(marker: str) -> _Folding:
    """The table for a marker: one that begins with a letter keeps its case."""
    return _FOLD if marker[0].isalnum() else _FOLD_CASE


def _break_points(text: str, markers: list[str], fold: _Folding) -> list[int]:
    """Positions in `text` of the second character of each of the `markers` that `fold` normalises."""
    folded = text.translate(fold)
    present = [marker for marker in markers if _folding_of(marker) is fold and marker in folded]
    if not present:
        return []
    # owner[i]: the character of the text that the i-th folded character comes from
    owner = [i for i, character in enumerate(text) for _ in fold[ord(character)]]
    return [owner[m.start()] + 1 for marker in present for m in re.finditer(re.escape(marker), folded)]


class _MarkerTokens(NamedTuple):
    """Tokens [start, end) spell `marker`, which begins `skip` characters into the first one."""

    start: int
    end: int
    skip: int
    marker: str


class Guard:
    """The token sequences that data must not contain. Raises CannotRun for a marker without tokens.

    backend: the whole tokenizer; encode: text to ids without added tokens; pieces: of the chat template; single: ids
    that are markers by themselves; name: of the model.
    """

    def __init__(
        self, backend: Tokenizer, encode: Callable[[str], list[int]], pieces: Pieces, single: Iterable[int], name: str
    ) -> None:
        self._backend, self._name = backend, name
        model = json.loads(backend.to_str())["model"]
        self._prefix: str = model.get("continuing_subword_prefix") or ""
        self._suffix: str = model.get("end_of_word_suffix") or ""
        self._bytes: bool = bool(model.get("byte_fallback"))
        self._unknown = (
            model.get("unk_id") if model.get("unk_token") is None else backend.token_to_id(model["unk_token"])
        )
        added = backend.get_added_tokens_decoder()
        self.single = frozenset(single)
        self._letter = encode("a")
        self._parts: dict[tuple[int, ...], list[list[int]]] = {}
        self._strings: dict[str, set[tuple[str, ...]]] = {}
        for marker in sorted(spelled_markers(pieces, (token.content for token in added.values()))):
            self._add_marker(marker, encode, pieces)
        self.longest = max(map(len, self._strings), default=0)

    def _add_marker(self, marker: str, encode: Callable[[str], list[int]], pieces: Pieces) -> None:
        """Store each way in which the template, or the marker by itself, cuts the marker into tokens."""
        own = encode(marker)
        if self._unknown is not None and self._unknown in own:
            raise CannotRun(
                f"the tokenizer of '{self._name}' has no tokens for {marker!r}, by which its chat template marks a "
                "turn, so a document could forge one; use another tokenizer (model.tokenizer=FOLDER)"
            )
        # Behind a newline, because the first token of a text may begin with a space that is not in the text.
        text = self._surface_text(encode("\n" + marker)).removeprefix(self._surface_text(encode("\n")))
        around = [encode(a + marker + b) for a, b in itertools.product(("", " ", "\n"), repeat=2)]
        whole = [
            list(self._backend.encode(p, add_special_tokens=False).ids) for p in (pieces.begin, pieces.mid, pieces.next)
        ]
        self._strings.setdefault(text, set())
        for ids in (own, *around, *whole):
            self._strings[text].update(self._cut(ids, place) for place in self._occurrences(ids, text))

    @cached_property
    def _surfaces(self) -> Mapping[int, str]:
        """Each token's string without the marks of a word's beginning, continuation and end.

        A token that is a marker by itself, or that only the model knows, has a character that no text has.
        """
        surfaces: dict[int, str] = defaultdict(lambda: "\0")
        for raw, i in self._backend.get_vocab(with_added_tokens=True).items():
            if i not in self.single:
                surfaces[i] = raw.removeprefix(self._prefix).removesuffix(self._suffix)
        return surfaces

    def _surface_text(self, ids: Sequence[int]) -> str:
        return "".join(map(self._surfaces.__getitem__, ids))

    def _cut(self, ids: Sequence[int], place: _MarkerTokens) -> tuple[str, ...]:
        """The marker at `place` in `ids`, in the parts that the tokens cut it into."""
        lengths = [len(self._surfaces[i]) for i in ids[place.start : place.end]]
        ends = [min(end - place.skip, len(place.marker)) for end in itertools.accumulate(lengths)]
        return tuple(place.marker[a:b] for a, b in itertools.pairwise([0, *ends]))

    def _occurrences(self, ids: Sequence[int], marker: str) -> Iterator[_MarkerTokens]:
        """Yield each place in `ids` where the tokens' text is `marker`, however they cut it."""
        text = self._surface_text(ids)
        at = text.find(marker)
        if at < 0:
            return
        starts = list(itertools.accumulate((len(self._surfaces[i]) for i in ids), initial=0))
        token = 0
        while at >= 0:
            while starts[token + 1] <= at:
                token += 1
            end = token
            while starts[end] < at + len(marker):
                end += 1
            yield _MarkerTokens(token, end, at - starts[token], marker)
            at = text.find(marker, at + 1)

    def places(self, ids: Sequence[int]) -> list[_MarkerTokens]:
        """Where markers stand in `ids`, in order: single tokens, and strings cut as the template cuts them."""
        out = []
        if not self.single.isdisjoint(ids):
            out = [_MarkerTokens(i, i + 1, 0, "") for i, token in enumerate(ids) if token in self.single]
        for marker, cuts in self._strings.items():
            out += [place for place in self._occurrences(ids, marker) if self._cut(ids, place) in cuts]
        return sorted(out)

    def checked(self, tokens: list[Token], before: Sequence[int] = ()) -> list[Token]:
        """Break up every marker in the `tokens` of a text, and across the border with the tokens `before`.

        The characters stay. Raises ForgedTurn where the vocabulary has no other tokens for them.
        """
        before = list(before[-self.longest :]) if self.longest else []
        for _ in range(_ROUNDS):
            ids = [*before, *(i for i, _ in tokens)]
            places = [place for place in self.places(ids) if place.end > len(before)]
            if not places:
                return tokens
            last = len(ids)
            for place in reversed(places):
                if place.end <= last:  # one that overlaps the next is looked at again in the next round
                    at, parts = self._replacement(ids, place, len(before))
                    at, last = at - len(before), place.start
                    tokens[at : at + 1] = _split_range(parts, tokens[at][1], [len(self._surfaces[i]) for i in parts])
        raise self._refusal([i for i, _ in tokens], places[0])

    def check_border(self, before: Sequence[int], piece: Sequence[int]) -> None:
        """Raise ForgedTurn where data `before` and the template's `piece` behind it spell a marker together."""
        tail = list(before[-self.longest :]) if self.longest else []
        ids = [*tail, *piece[: self.longest]]
        for place in self.places(ids) if tail else ():
            if place.start < len(tail) < place.end:
                raise self._refusal(ids, place)

    def _replacement(self, ids: list[int], place: _MarkerTokens, first: int) -> tuple[int, list[int]]:
        """Index of a token of the marker, not before `first`, and shorter tokens to replace it. Raises ForgedTurn."""
        for at in sorted(range(max(place.start, first), place.end), key=lambda i: -len(self._surfaces[ids[i]])):
            window = ids[place.start : place.end]
            known = (*window, -at + place.start)
            if known not in self._parts:
                self._parts[known] = [
                    parts for parts in self._splits(ids[at]) if self._breaks_marker(window, at - place.start, parts)
                ]
            if self._parts[known]:
                return at, self._parts[known][0]
        raise self._refusal(ids, place)

    def _breaks_marker(self, window: list[int], at: int, parts: list[int]) -> bool:
        """Whether `parts` in place of `window[at]` keep the text and leave no marker; window: a marker's tokens."""
        new = [*window[:at], *parts, *window[at + 1 :]]
        # Behind a letter, because decoders leave out a space at the beginning of a text.
        texts = [self._backend.decode([*self._letter, *ids], skip_special_tokens=False) for ids in (window, new)]
        return texts[0] == texts[1] and not self.places(new)

    def _splits(self, token: int) -> list[list[int]]:
        """Ways to write a token in others: the shortest one for each character it can be cut at, shortest first."""
        raw = self._backend.id_to_token(token) or ""
        begins = self._prefix if self._prefix and raw.startswith(self._prefix) else ""
        ends = self._suffix if self._suffix and raw.endswith(self._suffix) else ""
        text = raw[len(begins) : len(raw) - len(ends)]
        splits = []
        for cut in range(1, len(text)):
            best: list[list[int] | None] = [[]] + [None] * len(text)
            for b in range(1, len(text) + 1):
                for a in range(cut if b > cut else 0, b):
                    head = best[a]
                    part = (begins if a == 0 else self._prefix) + text[a:b] + (ends if b == len(text) else "")
                    new = None if head is None else self._ids_of_part(part, text[a:b])
                    if head is not None and new and (best[b] is None or len(head) + len(new) < len(best[b] or ())):
                        best[b] = [*head, *new]
            if best[-1]:
                splits.append(best[-1])
        return sorted(splits, key=len)

    def _ids_of_part(self, part: str, character: str) -> list[int] | None:
        """The token of `part`, else the byte tokens of `character`; None where the vocabulary has neither."""
        i = self._backend.token_to_id(part)
        if i is not None and i not in self.single:
            return [i]
        if not self._bytes or len(character) > 1:
            return None
        ids = [self._backend.token_to_id(f"<0x{byte:02X}>") for byte in character.encode()]
        known = [i for i in ids if i is not None]
        return known if len(known) == len(ids) else None

    def _refusal(self, ids: Sequence[int], place: _MarkerTokens) -> ForgedTurn:
        """The error for a marker at `place` in `ids` that no other tokens can spell."""

        def text(a: int, b: int) -> str:
            return printable(self._backend.decode(list(ids[max(a, 0) : b]), skip_special_tokens=False), 80)

        where = f"{text(place.start, place.end)!r} (in {text(place.start - 6, place.end + 6)!r})"
        return ForgedTurn(
            f"a text holds {where}, by which the chat template of '{self._name}' marks a turn, and the tokenizer has "
            "no other tokens for it; take it out of the text, or use another tokenizer (model.tokenizer=FOLDER)"
        )


def _split_range(parts: list[int], where: tuple[int, int], lengths: list[int]) -> list[Token]:
    """Share the characters `where` of a token out to its `parts`, of these lengths; the last one takes the rest."""
    cuts = [min(where[0] + length, where[1]) for length in itertools.accumulate(lengths, initial=0)]
    return list(zip(parts, itertools.pairwise([*cuts[:-1], where[1]]), strict=True))
