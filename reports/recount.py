"""Tokens of a run's requests, counted again by the reader's tokenizer where it is on this machine.

    recount_inconsistencies(run)
        -> ["5 of 10 records have another number of tokens than their prompt"]

Only for a loaded reader and a method that asks each question in one request. The tokenizer is that
of an installed package or of a folder, and is used if it has the digest that the run recorded. The
prompt of a record is made of the recorded template, the question and the passages shown; a run whose
first prompt is not made so tells nothing about the others.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from harness.errors import HarnessError
from harness.llm.fast_tokenizer import FastTokenizer
from harness.llm.text import Text
from harness.llm.tokenizer_files import tokenizer_digest
from harness.method.reading_prompt import ANSWER
from harness.prompts import Prompt
from harness.storage.paths import package_folder
from harness.storage.record_texts import CHECKSUM_KEY
from harness.storage.records import StoredPiece, StoredRecord
from harness.storage.run_folder import StoredRun
from reports.declared import MethodDeclaration, method_declaration

_MOST_RECORDS = 64  # that are counted again, spread over the run
_MOST_CHARACTERS = 2_000_000  # of their passages together
_SEPARATOR = "\n\n"  # between two passages of a prompt
_ALONE = 0.7  # of the tokens of passages that were counted alone: a prompt may have as few
_MORE = 1.1  # times the tokens that a setting allows may seem to be shown
_READER = "reader"
_MARKER = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")  # of a chat template
_SYSTEM_WORDS = 40  # of a template's own system turn
_ROLE_WORDS = 2  # that name who speaks next


def recount_inconsistencies(run: StoredRun) -> Iterator[str]:
    """Yield what does not fit between the tokens of a run's records, its first prompt and its
    passages, a sentence each; nothing where the tokenizer is not at hand."""
    declaration = method_declaration(run)
    if declaration is None or not declaration.one_request or declaration.asks_application:
        return
    tokenizer = _tokenizer_of(run)
    if tokenizer is None:
        return
    first = run.manifest.first_prompt(_READER)
    if first.ids and first.text and not tokenizer.is_text_of(first.ids, first.text):
        yield "the first prompt is not the text of its tokens"
    records = _spread(run)
    requests = _requests_of(run, records, tokenizer)
    total = len(requests)
    fewer = sum(1 for one in requests if one.read < _ALONE * one.shown)
    if fewer:
        yield f"{fewer} of {total} records counted again have fewer tokens than the passages shown"
    yield from _setting_inconsistencies(requests, declaration)
    others = _other_prompts(run, requests, tokenizer)
    if others:
        yield f"{others} of {total} records counted again have other tokens than their prompt"


class _Tokenizer:
    """Counts tokens as the reader does.

    Args:
        folder: The tokenizer's folder.
    """

    def __init__(self, folder: Path) -> None:
        """Read the tokenizer. Raises CannotRun where that is not possible."""
        self._fast = FastTokenizer(folder)
        self._text = Text(self._fast, folder.name)

    def count(self, text: str) -> int:
        """How many tokens a text has as data."""
        return self._text.count(text)

    def is_text_of(self, ids: Sequence[int], text: str) -> bool:
        """Whether these tokens give this text, but for white space."""
        decoded = self._fast.backend_tokenizer.decode(list(ids), skip_special_tokens=False)
        return "".join(decoded.split()) == "".join(text.split())


def _tokenizer_of(run: StoredRun) -> _Tokenizer | None:
    """The tokenizer of a run's loaded reader; None where it is not on this machine, or another."""
    settings = run.config.model_of(_READER).to_json()
    identity = run.manifest.identity(_READER)
    if settings.get("backend", "hf") != "hf" or not identity.get("tokenizer"):
        return None
    folder = _folder_of(settings)
    if folder is None or not (folder / "tokenizer.json").is_file():
        return None
    try:
        if tokenizer_digest(folder) != identity["tokenizer"]:
            return None
        return _tokenizer_in(folder)
    except (HarnessError, OSError):
        return None


@lru_cache(maxsize=4)
def _tokenizer_in(folder: Path) -> _Tokenizer:
    """The tokenizer in a folder, read once for all runs of a command. Raises CannotRun where it
    cannot be read."""
    return _Tokenizer(folder)


def _folder_of(settings: Mapping[str, object]) -> Path | None:
    """The folder of a model's tokenizer by its settings; None for one that is not here."""
    if settings.get("package") and not settings.get("tokenizer"):
        root = package_folder(str(settings["package"]))
        if root is None:
            return None
        return root / str(settings.get("package_path") or "")
    source = settings.get("tokenizer") or settings.get("source")
    if source and Path(str(source)).is_dir():
        return Path(str(source))
    return None


@dataclass(frozen=True)
class _Request:
    """The one request for the answer of a record.

    Attributes:
        record: The record.
        texts: The passages shown.
        shown: Their tokens, counted alone.
        read: The tokens that the record says were read.
    """

    record: StoredRecord
    texts: Sequence[str]
    shown: int
    read: int


def _spread(run: StoredRun) -> list[StoredRecord]:
    """At most 64 answered records of a run, at equal distances; those of a cut text are left
    out."""
    every = max(1, -(-len(run.records) // _MOST_RECORDS))
    chosen = []
    for place, record in enumerate(run.records_with_texts):
        if place % every == 0 and record.error is None and record.truncated is None:
            chosen.append(record)
    return chosen


def _requests_of(
    run: StoredRun, records: Sequence[StoredRecord], tokenizer: _Tokenizer
) -> list[_Request]:
    """The requests of records whose passages are known, up to 2,000,000 characters of them.

    Args:
        run: The run.
        records: Some of its records.
        tokenizer: The tokenizer of its reader.
    """
    long_texts = run.texts(records)
    requests = []
    characters = 0
    for record in records:
        answer = record.usage.get("answer") or {}
        search = record.usage.get("search") or {}
        asked = answer.get("requests") or 0
        of_models = (search.get("requests") or 0) - (search.get("encoder_requests") or 0)
        texts = _texts_of(record.shown, long_texts)
        if texts is None or asked != 1 or of_models:
            continue
        characters += sum(map(len, texts))
        if characters > _MOST_CHARACTERS:
            break
        read = int((answer.get("tokens_in") or 0) + (answer.get("tokens_cached") or 0))
        requests.append(_Request(record, texts, sum(map(tokenizer.count, texts)), read))
    return requests


def _texts_of(pieces: Sequence[StoredPiece], long_texts: Mapping[str, str]) -> list[str] | None:
    """The texts of passages shown; None where one is not known, or is no text of a document.

    Args:
        pieces: The passages.
        long_texts: Checksum -> text, of the run's long texts.
    """
    texts = []
    for piece in pieces:
        text = piece.get("text") or long_texts.get(str(piece.get(CHECKSUM_KEY)))
        if not text or piece.get("kind") != "span":
            return None
        texts.append(text)
    return texts


def _setting_inconsistencies(
    requests: Sequence[_Request], declaration: MethodDeclaration
) -> Iterator[str]:
    """Yield a sentence where passages have more tokens than the settings of the method allow.

    Args:
        requests: The requests.
        declaration: What the method declares.
    """
    most = declaration.max_passage_tokens
    if most is None:
        return
    longer = sum(1 for one in requests if one.shown > _MORE * most)
    if longer:
        yield (
            f"{longer} of {len(requests)} records counted again show more tokens than the settings "
            "allow"
        )


def _other_prompts(run: StoredRun, requests: Sequence[_Request], tokenizer: _Tokenizer) -> int:
    """How many requests have another number of tokens than their prompt, counted from the first
    prompt on; 0 where the first prompt does not show how prompts are made.

    Args:
        run: The run.
        requests: Requests of it.
        tokenizer: The tokenizer of its reader.
    """
    first = run.manifest.first_prompt(_READER)
    template = run.manifest.prompts.get(ANSWER.name)
    hashed = run.manifest.hashed
    if not first.ids or not first.text or template is None or hashed is None:
        return 0
    instruction = str(hashed.task.get("instruction", ""))
    frame = None
    for one in requests:
        pieces = _pieces(one, template, instruction)
        if one.texts and _stands_alone("".join(pieces), first.text, run.manifest.prompts):
            frame = len(first.ids) - sum(map(tokenizer.count, pieces))
    if frame is None:
        return 0
    others = 0
    for one in requests:
        pieces = _pieces(one, template, instruction)
        if one.texts and one.read != frame + sum(map(tokenizer.count, pieces)):
            others += 1
    return others


def _stands_alone(prompt: str, first: str, prompts: Mapping[str, str]) -> bool:
    """Whether the first prompt is this prompt between markers of a chat template, after a system
    turn at most: what else stands there, as an example or the start of a reply, may be another one
    for each question.

    Args:
        prompt: The prompt.
        first: The first prompt that was sent.
        prompts: Name -> text of the recorded prompts, a system prompt among them.
    """
    before, found, after = first.partition(prompt)
    for text in prompts.values():
        before = before.replace(text, "")
    before_words = _MARKER.sub(" ", before).split()
    after_words = _MARKER.sub(" ", after).split()
    return bool(found) and len(before_words) <= _SYSTEM_WORDS and len(after_words) <= _ROLE_WORDS


def _pieces(request: _Request, template: str, instruction: str) -> list[str]:
    """The pieces of a record's prompt, each of which is encoded alone.

    Args:
        request: The request.
        template: The recorded template of the prompt.
        instruction: What the data set asks of every answer.
    """
    listed: list[str] = []
    for text in request.texts:
        listed += [text, _SEPARATOR]
    question = request.record.question or ""
    lines = [""]
    for number, option in enumerate(request.record.options or ()):
        lines.append(f"({chr(ord('A') + number)}) {option}")
    options = "\n".join(lines).replace("\n", "\nOptions:\n", 1)
    return Prompt(ANSWER.name, template).fill(
        instruction=instruction, text=listed[:-1], question=question, options=options
    )
