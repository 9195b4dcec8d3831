"""Named entities of a text, behind one interface: rules that need no download, or a library that is
installed.

    recogniser("rules").names("Toren was born in Kelford in 1907.")     ["Toren", "Kelford", "1907"]
    recogniser("spacy")            spaCy with en_core_web_sm;  "spacy:en_core_web_lg" names another pipeline
    recogniser("stanza")           Stanza's English one (the Stanford group's successor of CoreNLP);  "stanza:de"

The rules: a run of capitalised words is a name, small words inside it included ("Lord of the
Isles"), and so is a date or a year. A capital at the start of a sentence proves nothing, so a
function word or pronoun is not taken there, and another single word only where the text nowhere has
it in small letters. A function word in capitals between words that are not all in capitals is a
name ("the US"). Scripts without capitals have no names by these rules.
"""

import importlib
import os
import re
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from harness.errors import CannotRun, UnknownName

RECOGNISERS = ("rules", "spacy", "stanza")
_DEFAULTS = {"spacy": "en_core_web_sm", "stanza": "en"}
# Questions in flight load and use a library's model one after the other.
_in_turn = threading.Lock()


class Recogniser(Protocol):
    """A named-entity recogniser.

    Attributes:
        name: As in a config.
        identity: The inputs that change its result.
    """

    name: str
    identity: dict[str, str]

    def names(self, text: str) -> list[str]:
        """The named entities of a text as they are written there, in order, none twice."""


def checked_name(name: str) -> str:
    """Return `name` if it is "rules" or names a library ("spacy", "stanza:de").

    Raises UnknownName for another; whether the library is installed is not looked at.
    """
    if name.partition(":")[0] not in RECOGNISERS or (name.startswith("rules") and name != "rules"):
        raise UnknownName(
            "named-entity tool",
            name,
            RECOGNISERS,
            "a library may name its model: spacy:en_core_web_lg",
        )
    return name


def packages(name: str) -> tuple[str, ...]:
    """The packages whose version changes the names that are recognised; () for the rules.

    "spacy" -> ("spacy", "en_core_web_sm"), as spaCy's models are packages; "stanza" -> ("stanza",).
    Raises UnknownName.
    """
    library, _, model = checked_name(name).partition(":")
    if library == "rules":
        return ()
    if library == "spacy":  # its models are packages
        return ("spacy", model or _DEFAULTS["spacy"])
    return (library,)


def install_problem(name: str, rules: str = "method.recogniser=rules") -> str:
    """A sentence on the package or model that a recogniser lacks, and how to install it; "" for
    none.

    Nothing is loaded to find out.

    Args:
        name: The recogniser's, "spacy".
        rules: The setting that chooses the rules instead, for the sentence.

    Raises:
        UnknownName: There is no such recogniser.
    """
    library, _, model = checked_name(name).partition(":")
    if library == "rules":
        return ""
    model = model or _DEFAULTS[library]
    fetch = _fetch_command(library, model)
    needs = f"the named-entity tool '{name}' needs the package {library} and its model '{model}'"
    if find_spec(library) is None:
        lacks = f"{library} is not installed"
        steps = f"pip install {library}, then {fetch}"
    elif not _has_model(library, model):
        lacks = "the model is not here"
        steps = fetch
    else:
        return ""
    return f"{needs}, and {lacks}; run: {steps}, or use the rules: --set {rules}"


def _fetch_command(library: str, model: str) -> str:
    """The shell command that fetches a library's model: "python -m spacy download
    en_core_web_sm".
    """
    if library == "spacy":
        return f"python -m spacy download {model}"
    return f"python -c \"import stanza; stanza.download('{model}', processors='tokenize,ner')\""


def _has_model(library: str, model: str) -> bool:
    """Whether a library's model is on this machine, where the library looks for it.

    Args:
        library: "spacy", whose pipelines are packages or folders, or "stanza".
        model: The library's name for the model.
    """
    if library == "spacy":
        return Path(model).is_dir() or (model.isidentifier() and find_spec(model) is not None)
    folder = os.environ.get("STANZA_RESOURCES_DIR") or Path.home() / "stanza_resources"
    return (Path(folder) / model / "ner").is_dir()


def recogniser(name: str) -> Recogniser:
    """The recogniser with this name, loaded once a process.

    Raises UnknownName, and CannotRun where its library or model is missing.
    """
    with _in_turn:  # `cache` lets each thread load a model of its own
        return _load(name)


@cache
def _load(name: str) -> Recogniser:
    """Make the recogniser with this name, at the first call; later ones get the same object."""
    library, _, model = checked_name(name).partition(":")
    if library == "rules":
        return _Rules()
    return _Library(name, library, model or _DEFAULTS[library])


class _Library:
    """A recogniser by spaCy or Stanza, which both give a text's entities as `ents` with a
    `text`."""

    def __init__(self, name: str, library: str, model: str) -> None:
        """Load a library's model, as `_pipeline`; `identity` has its name and the library's
        version.

        Args:
            name: The recogniser's, as in a config.
            library: "spacy" or "stanza".
            model: The library's name for the model.

        Raises:
            CannotRun: The library or its model is not here.
        """
        try:
            module: Any = importlib.import_module(library)
        except ImportError as error:
            raise CannotRun(
                f"the named-entity tool '{name}' needs the package {library}, which is not "
                "installed; run: pip install "
                f"{library}, or use the rules"
            ) from error
        try:
            if library == "spacy":
                self._pipeline: Any = module.load(model)
            else:
                quiet = {"download_method": None, "verbose": False}
                self._pipeline = module.Pipeline(lang=model, processors="tokenize,ner", **quiet)
        except Exception as error:  # each library has errors of its own for a model that is missing
            how = _fetch_command(library, model)
            raise CannotRun(
                f"the named-entity tool '{name}' has no model '{model}' here; fetch it: {how}"
            ) from error
        self.name = name
        self.identity = {
            "library": library,
            "model": model,
            "version": str(getattr(module, "__version__", "unknown")),
        }

    def names(self, text: str) -> list[str]:
        """The entities that the library finds in a text, with single spaces, in order, none
        twice.
        """
        with _in_turn:
            document = self._pipeline(text)
        names = (" ".join(str(entity.text).split()) for entity in document.ents)
        return list(dict.fromkeys(name for name in names if name))


_YEAR = "January February March April May June July August September October November December"
MONTHS = tuple(_YEAR.split())
_MONTH = "|".join(MONTHS)
_DATE = re.compile(
    rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTH})(?:,? \d{{4}})?|(?:{_MONTH})(?: \d{{1,2}}(?:st|nd|rd|th)?)?"
    r",? \d{4}|1\d{3}|20\d{2})\b"
)
_WORD = re.compile(r"[^\W_]+(?:['’&.-][^\W_]+)*")


def _words(text: str) -> frozenset[str]:
    """The words of a list that is written as one text: "of the" -> {"of", "the"}."""
    return frozenset(text.split())


_JOINS = _words("of the de del della la le van von der den da di du al bin")
_TITLES = _words("Mr Mrs Ms Dr Prof St Sir Rev Gen Col Capt Lt Jr Sr")
# Words that open sentences: never a name on their own, and never the first word of one.
COMMON = _words(
    "a about above according after again against all almost already also although always among an "
    "and another any "
    "are as asked at because been before behind being below besides between both but by can could "
    "did do does "
    "during each early either even eventually every everybody everyone few finally first for from "
    "further had has "
    "have he he'd he'll he's hence her here hers herself him himself his how however i i'd i'll "
    "i'm i've if in "
    "indeed instead into is it it'd it'll it's its itself just last later less let like many may "
    "maybe me meanwhile "
    "mine more moreover most much my myself near neither never next no nobody none nor not nothing "
    "now of off often "
    "on once one only or other our ours ourselves out over perhaps rather second several she she'd "
    "she'll she's "
    "should since so some somebody someone something soon still such text than that that's the "
    "their theirs them "
    "themselves then there there's therefore these they they'd they'll they're they've this those "
    "though three "
    "through thus to today together too towards two under unless until up upon us very was we we'd "
    "we'll we're "
    "we've well were what what's when whenever where whether which while who who's whom whose why "
    "will with within "
    "without would yes yet you you'd you'll you're you've your yours yourself yourselves"
)
_OPENING = "\"'“‘«([-–—*"


class _Rules:
    """The rules of the module's docstring."""

    name = "rules"

    def __init__(self) -> None:
        """Set the identity, whose version is raised when the rules change."""
        self.identity = {"library": "rules", "version": "2"}

    def names(self, text: str) -> list[str]:
        """The dates and names that the rules find in a text, in order, none twice."""
        dates = [match.span() for match in _DATE.finditer(text)]
        spans = sorted([*dates, *_capitalised_names(text, dates)])
        names = [" ".join(text[start:end].split()) for start, end in spans]
        return list(dict.fromkeys(names))


Word = re.Match[str]
"""A word of a text, with its place."""


def _capitalised_names(text: str, dates: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of the runs of capitalised words that are names.

    "The mill of Lord of the Isles" -> the span of "Lord of the Isles"

    Args:
        text: The whole text.
        dates: (start, end) of the dates in it, whose words belong to no name.
    """
    words = [word for word in _WORD.finditer(text) if not _overlaps(word, dates)]
    small = {word.group() for word in words if word.group()[0].islower()}
    for run in _capitalised_runs(text, words):
        while not _is_capitalised(run[-1]):
            run.pop()  # small words join names, they end none
        start = run[0].start()
        end = run[-1].end()
        # The capital of a single word that opens a sentence proves nothing.
        only_opens_sentence = len(run) == 1 and is_opening(text, start)
        if only_opens_sentence and run[0].group().lower() in small:
            continue
        if text[start:end].endswith(("'s", "’s")):
            end -= 2
        if end - start > 1:
            yield start, end


def _overlaps(word: Word, spans: list[tuple[int, int]]) -> bool:
    """Whether a word lies in one of the spans, also in part."""
    return any(start < word.end() and word.start() < end for start, end in spans)


def _capitalised_runs(text: str, words: Sequence[Word]) -> Iterator[list[Word]]:
    """Yield the words of each run that may be a name; its first word is capitalised.

    "He saw Lord of the Isles and" -> Lord, of, the, Isles. A run may end in small words that join
    names, "of", where nothing capitalised follows.

    Args:
        text: The whole text.
        words: Its words, in order.
    """
    run: list[Word] = []
    for place, word in enumerate(words):
        if run and _continues_name(text, run[-1], word):
            run.append(word)
            continue
        if run:
            yield run
            run = []
        if _is_capitalised(word) and (not _is_common(word) or _is_acronym(words, place)):
            run = [word]
    if run:
        yield run


def _is_common(word: Word) -> bool:
    """Whether a word is one that opens sentences and is no name on its own, "However"."""
    return word.group().replace("’", "'").lower() in COMMON


def _is_acronym(words: Sequence[Word], place: int) -> bool:
    """Whether a word is written as an acronym, "US": all in capitals, and the words beside it are
    not.

    Args:
        words: The words of the text.
        place: The index of the word.
    """
    word_before = words[max(place - 1, 0) : place]
    word_after = words[place + 1 : place + 2]
    for word in (*word_before, *word_after):
        if _all_capitals(word.group()):
            return False
    return _all_capitals(words[place].group())


def _all_capitals(word: str) -> bool:
    """Whether a word has two or more characters and its letters are capitals."""
    return len(word) > 1 and word.isupper()


def _is_capitalised(word: Word) -> bool:
    """Whether a word begins with a capital."""
    return word.group()[0].isupper()


def _continues_name(text: str, last: Word, word: Word) -> bool:
    """Whether a word continues the name that ends in the word before it.

    Capitalised words and "of", "the", "de" and the like do where one space is between, and a
    capitalised word after a title ("Dr. Ann") or an initial ("A. Toren").

    Args:
        text: The text that both are in.
        last: The last word of the name so far.
        word: The word after it.
    """
    written = last.group()
    if written.endswith(("'s", "’s")):
        return False
    gap = text[last.end() : word.start()]
    is_title = gap == ". " and (written in _TITLES or len(written) == 1)
    is_beside = gap.isspace() and "\n" not in gap
    if not is_title and not is_beside:
        return False
    return _is_capitalised(word) or word.group() in _JOINS


def is_opening(text: str, start: int) -> bool:
    """Whether a sentence or a line begins at a character of a text.

    Args:
        text: The text.
        start: The index of the character.
    """
    before = text[max(0, start - 40) : start].rstrip(_OPENING + " \t")
    return not before or before[-1] in ".!?…:\n"
