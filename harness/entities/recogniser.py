"""Named entities of a text, behind one interface: rules that need no download, or a library that is
installed.

    load_recogniser("rules").names("Toren was born in Kelford in 1907.")     ["Toren", "Kelford", "1907"]
    load_recogniser("spacy")       spaCy with en_core_web_sm;  "spacy:en_core_web_lg" names another pipeline
    load_recogniser("stanza")      Stanza's English one (the Stanford group's successor of CoreNLP);  "stanza:de"

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
from typing import Any, NamedTuple, Protocol

from harness.errors import CannotRun, UnknownName

RECOGNISERS = ("rules", "spacy", "stanza")
_DEFAULT_MODELS = {"spacy": "en_core_web_sm", "stanza": "en"}
# Questions in flight load and use a library's model one after the other.
_lock_of_models = threading.Lock()


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


def check_recogniser_name(name: str) -> str:
    """Return `name` if it is "rules" or names a library ("spacy", "stanza:de").

    Raises UnknownName for another; whether the library is installed is not looked at.
    """
    library_or_rules, colon, _ = name.partition(":")
    is_rules_with_model = library_or_rules == "rules" and bool(colon)
    if library_or_rules not in RECOGNISERS or is_rules_with_model:
        raise UnknownName(
            "named-entity tool",
            name,
            RECOGNISERS,
            "a library may name its model: spacy:en_core_web_lg",
        )
    return name


def recogniser_packages(name: str) -> tuple[str, ...]:
    """The packages whose version changes the names that are recognised; () for the rules.

    "spacy" -> ("spacy", "en_core_web_sm"), as spaCy's models are packages; "stanza" -> ("stanza",).
    Raises UnknownName.
    """
    library, _, model = check_recogniser_name(name).partition(":")
    if library == "rules":
        return ()
    if library == "spacy":  # its models are packages
        return ("spacy", model or _DEFAULT_MODELS["spacy"])
    return (library,)


def install_problem(name: str, setting_for_rules: str = "method.recogniser=rules") -> str:
    """A sentence on the package or model that a recogniser lacks, and how to install it; "" for
    none.

    Nothing is loaded to find out.

    Args:
        name: The recogniser's, "spacy".
        setting_for_rules: The setting that chooses the rules instead, for the sentence.

    Raises:
        UnknownName: There is no such recogniser.
    """
    library, _, model = check_recogniser_name(name).partition(":")
    if library == "rules":
        return ""
    model = model or _DEFAULT_MODELS[library]
    fetch_command = _fetch_command(library, model)
    needs = f"the named-entity tool '{name}' needs the package {library} and its model '{model}'"
    if find_spec(library) is None:
        lack = f"{library} is not installed"
        steps = f"pip install {library}, then {fetch_command}"
    elif not _has_model(library, model):
        lack = "the model is not here"
        steps = fetch_command
    else:
        return ""
    return f"{needs}, and {lack}; run: {steps}, or use the rules: --set {setting_for_rules}"


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
        is_installed_package = model.isidentifier() and find_spec(model) is not None
        return is_installed_package or Path(model).is_dir()
    stanza_folder = os.environ.get("STANZA_RESOURCES_DIR") or Path.home() / "stanza_resources"
    return (Path(stanza_folder) / model / "ner").is_dir()


def load_recogniser(name: str) -> Recogniser:
    """Load the recogniser with this name, once in a process.

    Raises UnknownName, and CannotRun where its library or model is missing.
    """
    # The cache of the function that makes one would let two threads load it at once.
    with _lock_of_models:
        return _make_recogniser(name)


@cache
def _make_recogniser(name: str) -> Recogniser:
    """Make the recogniser with this name, at the first call; later ones get the same object."""
    library, _, model = check_recogniser_name(name).partition(":")
    if library == "rules":
        return _RulesRecogniser()
    return _LibraryRecogniser(name, library, model or _DEFAULT_MODELS[library])


class _LibraryRecogniser:
    """A recogniser by spaCy or Stanza, which both give a text's entities as `ents` with a
    `text`."""

    def __init__(self, name: str, library: str, model: str) -> None:
        """Load a library's model. `identity` has its name and the library's version.

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
                self._pipeline = module.Pipeline(
                    lang=model,
                    processors="tokenize,ner",
                    download_method=None,
                    verbose=False,
                )
        except Exception as error:  # each library has errors of its own for a model that is missing
            command = _fetch_command(library, model)
            raise CannotRun(
                f"the named-entity tool '{name}' has no model '{model}' here; fetch it: {command}"
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
        with _lock_of_models:
            document = self._pipeline(text)
        names = (" ".join(str(entity.text).split()) for entity in document.ents)
        return list(dict.fromkeys(name for name in names if name))


_MONTH_NAMES = (
    "January February March April May June July August September October November December"
)
MONTHS = tuple(_MONTH_NAMES.split())
_MONTH = "|".join(MONTHS)
_DATE = re.compile(
    rf"\b(?:\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTH})(?:,? \d{{4}})?|(?:{_MONTH})(?: \d{{1,2}}(?:st|nd|rd|th)?)?"
    r",? \d{4}|1\d{3}|20\d{2})\b"
)
_WORD = re.compile(r"[^\W_]+(?:['’&.-][^\W_]+)*")


def _word_set(text: str) -> frozenset[str]:
    """The words of a list that is written as one text: "of the" -> {"of", "the"}."""
    return frozenset(text.split())


_WORDS_INSIDE_NAMES = _word_set("of the de del della la le van von der den da di du al bin")
_TITLES = _word_set("Mr Mrs Ms Dr Prof St Sir Rev Gen Col Capt Lt Jr Sr")
# Words that open sentences: never a name on their own, and never the first word of one.
SENTENCE_OPENERS = _word_set(
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
_OPENING_MARKS = "\"'“‘«([-–—*"
_POSSESSIVES = ("'s", "’s")
_LOOKBACK_CHARACTERS = 40  # more than the quotes, dashes and spaces before a sentence take


class _CharacterSpan(NamedTuple):
    """A part of a text: the index of its first character, and of the one after its last."""

    start: int
    end: int


class _RulesRecogniser:
    """The rules of the module's docstring."""

    name = "rules"

    def __init__(self) -> None:
        """Set the identity, whose version is raised when the rules change."""
        self.identity = {"library": "rules", "version": "2"}

    def names(self, text: str) -> list[str]:
        """The dates and names that the rules find in a text, in order, none twice."""
        dates = [_CharacterSpan(*match.span()) for match in _DATE.finditer(text)]
        spans = sorted([*dates, *_find_capitalised_names(text, dates)])
        names = [" ".join(text[start:end].split()) for start, end in spans]
        return list(dict.fromkeys(names))


WordMatch = re.Match[str]
"""A word of a text, with its place."""


def _find_capitalised_names(text: str, dates: Sequence[_CharacterSpan]) -> Iterator[_CharacterSpan]:
    """Yield the spans of the runs of capitalised words that are names.

    "The mill of Lord of the Isles" -> the span of "Lord of the Isles"

    Args:
        text: The whole text.
        dates: The spans of the dates in it, whose words belong to no name.
    """
    words = [word for word in _WORD.finditer(text) if not _overlaps(word, dates)]
    words_in_small_letters = {word.group() for word in words if word.group()[0].islower()}
    for run in _capitalised_runs(text, words):
        while not _is_capitalised(run[-1]):
            run.pop()  # small words join names, they end none
        first_word = run[0].group()
        start = run[0].start()
        end = run[-1].end()
        # The capital of a single word that opens a sentence proves nothing.
        only_opens_sentence = len(run) == 1 and is_sentence_start(text, start)
        if only_opens_sentence and first_word.lower() in words_in_small_letters:
            continue
        if text[start:end].endswith(_POSSESSIVES):
            end -= len("'s")
        if end - start > 1:
            yield _CharacterSpan(start, end)


def _overlaps(word: WordMatch, spans: Sequence[_CharacterSpan]) -> bool:
    """Whether a word lies in one of the spans, also in part."""
    return any(span.start < word.end() and word.start() < span.end for span in spans)


def _capitalised_runs(text: str, words: Sequence[WordMatch]) -> Iterator[list[WordMatch]]:
    """Yield the words of each run that may be a name; its first word is capitalised.

    "He saw Lord of the Isles and" -> Lord, of, the, Isles. A run may end in small words that join
    names, "of", where nothing capitalised follows.

    Args:
        text: The whole text.
        words: Its words, in order.
    """
    run: list[WordMatch] = []
    for index, word in enumerate(words):
        if run and _continues_name(text, run[-1], word):
            run.append(word)
            continue
        if run:
            yield run
            run = []
        if not _is_capitalised(word):
            continue
        if not _is_sentence_opener(word) or _is_acronym(words, index):
            run = [word]
    if run:
        yield run


def _is_sentence_opener(word: WordMatch) -> bool:
    """Whether a word is one that opens sentences and is no name on its own, "However"."""
    return word.group().replace("’", "'").lower() in SENTENCE_OPENERS


def _is_acronym(words: Sequence[WordMatch], index: int) -> bool:
    """Whether a word is written as an acronym, "US": all in capitals, and the words beside it are
    not.

    Args:
        words: The words of the text.
        index: The index of the word.
    """
    word_before = words[max(index - 1, 0) : index]
    word_after = words[index + 1 : index + 2]
    for neighbour in (*word_before, *word_after):
        if _is_all_capitals(neighbour.group()):
            return False
    return _is_all_capitals(words[index].group())


def _is_all_capitals(word: str) -> bool:
    """Whether a word has two or more characters and its letters are capitals."""
    return len(word) > 1 and word.isupper()


def _is_capitalised(word: WordMatch) -> bool:
    """Whether a word begins with a capital."""
    return word.group()[0].isupper()


def _continues_name(text: str, last_word: WordMatch, next_word: WordMatch) -> bool:
    """Whether a word continues the name that ends in the word before it.

    Capitalised words and "of", "the", "de" and the like do where white space without a line break
    is between, and a capitalised word after a title ("Dr. Ann") or an initial ("A. Toren"). A
    possessive ("Ann's") ends a name.

    Args:
        text: The text that both are in.
        last_word: The last word of the name so far.
        next_word: The word after it.
    """
    last = last_word.group()
    if last.endswith(_POSSESSIVES):
        return False
    between = text[last_word.end() : next_word.start()]
    is_title_or_initial = last in _TITLES or len(last) == 1
    follows_title = between == ". " and is_title_or_initial
    follows_on_line = between.isspace() and "\n" not in between
    if not follows_title and not follows_on_line:
        return False
    return _is_capitalised(next_word) or next_word.group() in _WORDS_INSIDE_NAMES


def is_sentence_start(text: str, start: int) -> bool:
    """Whether a sentence or a line begins at a character of a text.

    Args:
        text: The text.
        start: The index of the character.
    """
    beginning = max(0, start - _LOOKBACK_CHARACTERS)
    text_before = text[beginning:start].rstrip(_OPENING_MARKS + " \t")
    return not text_before or text_before[-1] in ".!?…:\n"
