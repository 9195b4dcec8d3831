"""Tokens of a run's requests, counted again by the reader's tokenizer where it is on this machine.

    recount_inconsistencies(run)
        -> ["5 of 10 records have another number of tokens than their prompt"]

Only for a loaded reader and a method that asks each question in one request. The tokenizer is that
of an installed package or of a folder, and is used if it has the digest that the run recorded. The
prompt of a record is made of the recorded template, the question and the passages shown; a run whose
first prompt is not made so tells nothing about the others.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from harness.storage.record_notes import is_joined
from harness.storage.record_texts import CHECKSUM_KEY
from harness.storage.records import StoredPiece, StoredRecord
from harness.storage.run_folder import StoredRun
from reports.declared import MethodDeclaration, method_declaration

_MOST_RECORDS = 64  # that are counted again, spread over the run
_MOST_CHARACTERS = 2_000_000  # of their passages together
_SEPARATOR = "\n\n"  # between two passages of a prompt
_MIN_SHARE_OF_PASSAGES = 0.7
"""Of the tokens of passages that were counted alone: a prompt may have as few."""
_MAX_SHARE_OF_SETTING = 1.1
"""Of the tokens that a setting allows: so many may seem to be shown."""
_READER = "reader"
_MARKER = re.compile(r"<[^<>]*>|\[[^\[\]]*\]")  # of a chat template
_MAX_SYSTEM_WORDS = 40  # of a template's own system turn
_MAX_ROLE_WORDS = 2  # that name who speaks next


def recount_inconsistencies(run: StoredRun) -> Iterator[str]:
    """Yield what does not fit between the tokens of a run's records, its first prompt and its
    passages, a sentence each.

    Only for a method that asks a loaded reader once a question, and where its tokenizer is on this
    machine: some records are tokenized again.
    """
    declaration = method_declaration(run)
    if declaration is None or not declaration.one_request or declaration.asks_application:
        return
    tokenizer = _tokenizer_of(run)
    if tokenizer is None:
        return
    first_prompt = run.manifest.first_prompt(_READER)
    ids = first_prompt.ids
    text = first_prompt.text
    if ids and text and not tokenizer.gives_text(ids, text):
        yield "the first prompt is not the text of its tokens"
    records = _records_at_equal_distances(run)
    requests = _requests_with_known_passages(run, records, tokenizer)
    total = len(requests)
    fewer = 0
    for request in requests:
        if request.tokens_read < _MIN_SHARE_OF_PASSAGES * request.passage_tokens:
            fewer += 1
    if fewer:
        yield f"{fewer} of {total} records counted again have fewer tokens than the passages shown"
    yield from _setting_inconsistencies(requests, declaration)
    others = _count_other_prompts(run, requests, tokenizer)
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

    def count_all(self, texts: Iterable[str]) -> int:
        """How many tokens several texts have together, each encoded alone."""
        return sum(self.count(text) for text in texts)

    def gives_text(self, ids: Sequence[int], text: str) -> bool:
        """Whether the tokens with these ids give this text, but for white space."""
        decoded = self._fast.backend_tokenizer.decode(list(ids), skip_special_tokens=False)
        return "".join(decoded.split()) == "".join(text.split())


def _tokenizer_of(run: StoredRun) -> _Tokenizer | None:
    """The tokenizer of a run's loaded reader; None where it is not on this machine, its files are not
    those of the run, or the reader was not loaded."""
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
    """The folder of a model's tokenizer by its settings; None for one that is not on this machine.

    That is a folder in a package ({"package": "harness_demo", "package_path": "model"}), or the
    folder that "tokenizer" or, without it, "source" names.
    """
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
        passages: The texts of the passages shown.
        passage_tokens: Their tokens, counted alone.
        tokens_read: The tokens that the record says were read, those in the cache included.
    """

    record: StoredRecord
    passages: Sequence[str]
    passage_tokens: int
    tokens_read: int


def _records_at_equal_distances(run: StoredRun) -> list[StoredRecord]:
    """At most 64 records of a run, every n-th of all; failed ones and those of a cut text are left
    out."""
    distance = max(1, math.ceil(len(run.records) / _MOST_RECORDS))
    chosen = []
    for place, record in enumerate(run.records_with_texts):
        if place % distance == 0 and record.error is None and record.truncated is None:
            chosen.append(record)
    return chosen


def _requests_with_known_passages(
    run: StoredRun, records: Sequence[StoredRecord], tokenizer: _Tokenizer
) -> list[_Request]:
    """The requests for the answers of records, up to 2,000,000 characters of passages together.

    Left out are records with a passage whose text is not known, with several requests for the
    answer, or with requests of the search to a model that writes.

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
        answer_requests = answer.get("requests") or 0
        search_requests = search.get("requests") or 0
        search_requests_to_model = search_requests - (search.get("encoder_requests") or 0)
        passages = _texts_of(record.shown, long_texts)
        if passages is None or answer_requests != 1 or search_requests_to_model:
            continue
        characters += sum(len(passage) for passage in passages)
        if characters > _MOST_CHARACTERS:
            break
        tokens_read = (answer.get("tokens_in") or 0) + (answer.get("tokens_cached") or 0)
        request = _Request(
            record=record,
            passages=passages,
            passage_tokens=tokenizer.count_all(passages),
            tokens_read=int(tokens_read),
        )
        requests.append(request)
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
    max_tokens = declaration.max_passage_tokens
    if max_tokens is None:
        return
    longer = 0
    for request in requests:
        if request.passage_tokens > _MAX_SHARE_OF_SETTING * max_tokens:
            longer += 1
    if longer:
        yield (
            f"{longer} of {len(requests)} records counted again show more tokens than the settings "
            "allow"
        )


def _count_other_prompts(
    run: StoredRun, requests: Sequence[_Request], tokenizer: _Tokenizer
) -> int:
    """How many requests read another number of tokens than their prompt has.

    The prompt is filled again from the record and its tokens are counted; what the chat template
    adds is the difference between the recorded tokens of the first prompt and those of its own text
    counted so. 0 where that is not known: no request is that of the first prompt.

    Args:
        run: The run.
        requests: Requests of it.
        tokenizer: The tokenizer of its reader.
    """
    first_prompt = run.manifest.first_prompt(_READER)
    template = run.manifest.prompts.get(ANSWER.name)
    hashed = run.manifest.hashed
    if not first_prompt.ids or not first_prompt.text or template is None or hashed is None:
        return 0
    instruction = str(hashed.task.get("instruction", ""))
    frame_tokens = None
    for request in requests:
        if not request.passages:
            continue
        pieces = _prompt_pieces(request, template, instruction)
        if _is_whole_prompt("".join(pieces), first_prompt.text, run.manifest.prompts):
            frame_tokens = len(first_prompt.ids) - tokenizer.count_all(pieces)
    if frame_tokens is None:
        return 0
    others = 0
    for request in requests:
        if not request.passages or _may_split_passages(request.record):
            continue
        pieces = _prompt_pieces(request, template, instruction)
        if request.tokens_read != frame_tokens + tokenizer.count_all(pieces):
            others += 1
    return others


def _may_split_passages(record: StoredRecord) -> bool:
    """Whether several documents were read as one: a passage that lies in two of them is recorded as
    two, and its prompt has no blank line between them."""
    return len(record.document_ids) > 1 and is_joined(record.notes)


def _is_whole_prompt(text: str, first_prompt: str, recorded_prompts: Mapping[str, str]) -> bool:
    """Whether the first prompt is this text between markers of a chat template, after a system turn
    at most: what else stands there, as an example or the start of a reply, may be another one for
    each question.

    Args:
        text: The prompt of a question.
        first_prompt: The first prompt that was sent.
        recorded_prompts: Name -> text of the recorded prompts, a system prompt among them.
    """
    before, found_text, after = first_prompt.partition(text)
    if not found_text:
        return False
    for recorded_prompt in recorded_prompts.values():
        before = before.replace(recorded_prompt, "")
    words_before = _MARKER.sub(" ", before).split()
    words_after = _MARKER.sub(" ", after).split()
    return len(words_before) <= _MAX_SYSTEM_WORDS and len(words_after) <= _MAX_ROLE_WORDS


def _prompt_pieces(request: _Request, template: str, instruction: str) -> list[str]:
    """The pieces of a record's prompt, each of which is encoded alone.

    Args:
        request: The request.
        template: The recorded template of the prompt.
        instruction: What the data set asks of every answer.
    """
    passages_and_separators: list[str] = []
    for passage in request.passages:
        passages_and_separators += [passage, _SEPARATOR]
    without_last_separator = passages_and_separators[:-1]
    return Prompt(ANSWER.name, template).fill(
        instruction=instruction,
        text=without_last_separator,
        question=request.record.question or "",
        options=_options_text(request.record.options or ()),
    )


def _options_text(options: Sequence[str]) -> str:
    r"""The options of a question as they stand in a prompt; "" for none.

    ["Rome", "Oslo"] -> "\nOptions:\n(A) Rome\n(B) Oslo"
    """
    if not options:
        return ""
    lines = []
    for number, option in enumerate(options):
        letter = chr(ord("A") + number)
        lines.append(f"({letter}) {option}")
    return "\nOptions:\n" + "\n".join(lines)
