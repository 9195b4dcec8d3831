"""Bytes of a file as text.

    decode_text(b"caf\\xc3\\xa9")     DecodedText("café", "")            UTF-8
    decode_text(b"caf\\xe9")         DecodedText("café", "cp1252")      assumed, which a note should say

A byte-order mark and a declared encoding are believed. Without them UTF-8 is tried, and only then is
the encoding guessed from the bytes.
"""

import codecs
from dataclasses import dataclass

# (mark, encoding) of byte-order marks; UTF-32 first, as its mark begins with that of UTF-16.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_WESTERN = "cp1252"
# What editors and spreadsheets write; with every encoding that Python knows a short text is taken
# for one of the 1980s.
_OF_ONE_BYTE = [_WESTERN, "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "koi8_r"]
_OF_TWO_BYTES = ["cp932", "euc_jp", "gb18030", "big5", "cp949"]
_WITH_ZERO_BYTES = ["utf_16_le", "utf_16_be"]


class NotText(Exception):
    """The bytes are not text in any encoding that is known here."""


@dataclass(frozen=True, slots=True)
class DecodedText:
    """A text; guessed_encoding: "" where the file says its encoding, or it is UTF-8."""

    text: str
    guessed_encoding: str = ""


def decode_text(data: bytes, declared: str | None = None) -> DecodedText:
    """Decode the bytes of a file; the encoding is guessed only where nothing says it.

    A byte-order mark is believed, then UTF-8 is tried, then the declared encoding. Bytes with a
    zero among them are text only in an encoding such as UTF-16.

    Args:
        data: All bytes of the file.
        declared: The encoding that the file names in itself, as HTML does; None: it names none.

    Returns:
        The text, with the encoding where that was guessed.

    Raises:
        NotText: The bytes are no text.
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return DecodedText(_decode(data, encoding))
    if b"\0" in data:
        guessed = _guess(data, _WITH_ZERO_BYTES)
        if not _is_partly_ascii(guessed.text):
            raise NotText  # any bytes of an even number are UTF-16
        return guessed
    for encoding in ("utf-8", declared or "utf-8"):
        try:
            return DecodedText(data.decode(encoding))
        except (UnicodeDecodeError, LookupError):
            continue
    return _guess(data, [*_OF_ONE_BYTE, *_OF_TWO_BYTES])


def _decode(data: bytes, encoding: str) -> str:
    """Decode bytes from a known encoding.

    Raises NotText for bytes that are not of this encoding, and for a text with NUL characters.
    """
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise NotText from None
    if "\0" in text:
        raise NotText
    return text


def _is_partly_ascii(text: str) -> bool:
    """Whether at least a quarter of the characters are printable ASCII."""
    n_printable_ascii = sum(character.isascii() and character.isprintable() for character in text)
    return 4 * n_printable_ascii >= len(text)


def _guess(data: bytes, encodings: list[str]) -> DecodedText:
    """Decode bytes in the most likely one of `encodings`; in cp1252 wherever that is possible.

    Raises NotText where none of them fits.
    """
    from charset_normalizer import from_bytes  # only files that are not UTF-8 need it

    matches = from_bytes(data, cp_isolation=encodings)
    best = matches.best()
    if best is None:
        raise NotText
    possible_encodings: set[str] = set()
    for match in matches:
        possible_encodings.update((match.encoding, *match.could_be_from_charset))
    encoding = best.encoding
    if _WESTERN in possible_encodings:
        encoding = _WESTERN
    return DecodedText(_decode(data, encoding), encoding)
