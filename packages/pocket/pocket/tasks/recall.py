"""The first thing to learn: two random names that stand together; later one is named and the other
is to follow.

    pairs        VelfordToren Kirax212 ...  |  Kirax -> 212
    sentences    by the Toren was of Velford. 212 from Kirax is.  |  is Kirax the -> 212          (`between` words)

Straight from language, small models stay at guessing by type for millions of tokens. The words
around a pair are drawn anew for the question: when they were repeated, the words were matched
instead of the name, and training stayed at 0.66 right. Either name may stand first, with any
distance between, or they would be matched by place.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypeVar

from harness_training.tasks import Scene
from harness_training.teacher import Teacher
from harness_training.token_rows import Branch, Tree

from harness.datasets.syllables import ENDINGS
from harness.stats.rng import Dice
from harness.types import Question
from pocket.tasks.scenes import answer_task
from pocket.world import names

T = TypeVar("T")
MAX_PARTS = 10
"""Numbered parts of an exercise at most: a number is one token."""
_FILLER_WORDS = (
    " is", " of ", " was ", " the", " in ", " for", " by ", " to", " from ", " and", " first", " came", " at ", " who",
    " had", " has", " as", " year", " that ", " in", " town", " river ", " into", " on", " with", " born", " wrote ",
    " are", " made", " where", " told ", " held", " on ", " lake", " time", " all", " company", " its", " work",
    " home",
)  # fmt: skip
_MARKS_AFTER_WORD = (".", ",", "\n", ";", "\n\n")
_MAX_QUESTIONS_IN_PROMPTS = 10  # of them, where each question stands in a prompt
_PART_HEADS = ("\n\nSummary ", "\n\nPage ", "\n\nPart ", "\n")
_MAX_QUESTIONS_IN_DRILL = 24  # names of an exercise in parts that have a question
_SENTENCE_ENDS = (". ", ".\n", ".\n\n", ". ")


class DrillTokens:
    """What exercises are made of: names and words, as texts and as tokens of one tokenizer.

    Attributes:
        words: Made-up names and the numbers 100 to 999, as text; any two can stand as a pair.
        one_token_words: The token of each word that is a single token.
        fillers: Token ids of each piece of language that stands between words.
        after: Token ids of each mark that may follow a word.
        sentence_ends: Token ids of each way in which a sentence ends.
        part_heads: Token ids of each text before the number of a part.
        numbers: Token ids of the number of each part.
        colon: Token ids of ": ".
        action: Token ids of a reply up to its number.
    """

    def __init__(self, teacher: Teacher) -> None:
        """Tokenize all pieces with the tokenizer of the teacher: `teacher.plain(text)` gives the
        token ids of a text alone."""
        made_up_names = list(chain.from_iterable(map(names.short_names, ENDINGS)))
        self.words = [*made_up_names, *map(str, range(100, 1000))]
        tokens_of_words = map(teacher.plain, self.words)
        self.one_token_words = [ids[0] for ids in tokens_of_words if len(ids) == 1]
        self.fillers = list(map(teacher.plain, _FILLER_WORDS))
        self.after = list(map(teacher.plain, _MARKS_AFTER_WORD))
        self.sentence_ends = list(map(teacher.plain, _SENTENCE_ENDS))
        self.part_heads = list(map(teacher.plain, _PART_HEADS))
        self.numbers = [teacher.plain(str(number)) for number in range(MAX_PARTS)]
        self.colon = teacher.plain(": ")
        self.action = teacher.plain("\n\nAction: 0")[:-1]  # without the number


def _draw_tokens(dice: Dice, items: Sequence[Sequence[int]], max_count: int) -> list[int]:
    """The tokens of random items, joined; there may be none.

    Args:
        dice: Draws how many items and which.
        items: The token ids of each item.
        max_count: Most items.
    """
    tokens: list[int] = []
    for _ in range(dice.below(max_count + 1)):
        tokens += dice.pick(items)
    return tokens


def _draw_distinct(dice: Dice, items: Sequence[T], count: int) -> list[T]:
    """Draw `count` different items; returns them in the order in which they were drawn."""
    drawn: dict[T, None] = {}
    while len(drawn) < count:
        drawn[dice.pick(items)] = None
    return list(drawn)


def pair_drill(tokens: DrillTokens, dice: Dice, pairs: tuple[int, int], between: int = 0) -> Tree:
    """Make an exercise as a tree of tokens: a trunk of pairs of names to read, and for each pair a
    branch that names one of the two and has the other, its last token, as its target.

        trunk "Toren is Kelford. Velax was Ada."      branch ". Toren of Kelford", target "Kelford"

    Args:
        tokens: What it is made of.
        dice: Draws names and words.
        pairs: (least, most) pairs.
        between: Most words between the two names; above 2 each pair is a sentence with words around
            it, and either name may be asked for; up to 2 the second name is asked for, with at most
            one word between.
    """
    names_to_pair = _draw_distinct(dice, tokens.one_token_words, 2 * dice.between(*pairs))
    are_sentences = between > 2
    trunk: list[int] = []
    lookups: list[tuple[int, int]] = []  # (token of the name that is named, of the other)
    for first, second in zip(names_to_pair[::2], names_to_pair[1::2], strict=True):
        if are_sentences:
            trunk += _pair_as_sentence(tokens, dice, first, second, between)
            lookups.append(_in_random_order(dice, first, second))
        else:
            tokens_between = _draw_tokens(dice, tokens.fillers, between)
            tokens_after = _draw_tokens(dice, tokens.after, min(1, between))
            trunk += [first, *tokens_between, second, *tokens_after]
            lookups.append((first, second))
    max_between_in_question = min(1, between)
    if are_sentences:
        max_between_in_question = between
    branches: list[Branch] = []
    for named, target in lookups:
        tokens_before = _draw_tokens(dice, tokens.after, min(1, between))
        tokens_between = _draw_tokens(dice, tokens.fillers, max_between_in_question)
        ids = [*tokens_before, named, *tokens_between, target]
        branches.append(Branch(at=len(trunk), ids=ids, targets=[len(ids) - 1]))
    return Tree(trunk, targets=[], branches=branches)


def _pair_as_sentence(
    tokens: DrillTokens, dice: Dice, first: int, second: int, between: int
) -> list[int]:
    """The tokens of a sentence with two names among words: "was Toren of the Kelford in. ".

    Args:
        tokens: What it is made of.
        dice: Draws the words.
        first: The token of the first name.
        second: The token of the second name.
        between: Most words between the names; before and after them stand half as many at most.
    """
    tokens_between = _draw_tokens(dice, tokens.fillers, between)
    tokens_before = _draw_tokens(dice, tokens.fillers, between // 2)
    tokens_after = _draw_tokens(dice, tokens.fillers, between // 2)
    end = dice.pick(tokens.sentence_ends)
    return [*tokens_before, first, *tokens_between, second, *tokens_after, *end]


def _in_random_order(dice: Dice, first: T, second: T) -> tuple[T, T]:
    """The two items in this order or, in half of the cases, the other way round."""
    if dice.chance(0.5):
        return first, second
    return second, first


def parts_drill(
    tokens: DrillTokens, dice: Dice, n_parts_range: tuple[int, int], between: int = 0
) -> Tree:
    """Make an exercise as a tree of tokens: a trunk of numbered parts that name things; each branch
    names a thing and has the number of its part, its last token, as its target.

        trunk "Part 0: Toren of the Part 1: Kelford"      branch ". Toren\\n\\nAction: 0"

    For this every word must know the last number above it, which reading does not teach: asked in a
    prompt for one part each, the model stayed at guessing in 2,000 steps.

    Args:
        tokens: What it is made of.
        dice: Draws names and words.
        n_parts_range: (least, most) parts.
        between: Most names of a part.
    """
    max_names_per_part = max(1, between)
    most_names = n_parts_range[1] * max_names_per_part
    names_left = iter(_draw_distinct(dice, tokens.one_token_words, most_names))
    trunk: list[int] = []
    part_of_name: list[tuple[int, int]] = []  # (name, number of its part)
    head = dice.pick(tokens.part_heads)
    for part_number in range(dice.between(*n_parts_range)):
        trunk += [*head, *tokens.numbers[part_number], *tokens.colon]
        for _ in range(dice.between(1, max_names_per_part)):
            name = next(names_left)
            trunk += [name, *_draw_tokens(dice, tokens.fillers, 3)]
            part_of_name.append((name, part_number))
    branches: list[Branch] = []
    for name, part_number in dice.shuffled(part_of_name)[:_MAX_QUESTIONS_IN_DRILL]:
        tokens_before = _draw_tokens(dice, tokens.fillers, 3)
        tokens_after = _draw_tokens(dice, tokens.fillers, 3)
        ids = [*dice.pick(tokens.after), *tokens_before, name, *tokens_after]
        ids += [*tokens.action, *tokens.numbers[part_number]]
        branches.append(Branch(at=len(trunk), ids=ids, targets=[len(ids) - 1]))
    return Tree(trunk, targets=[], branches=branches)


def pair_scenes(
    tokens: DrillTokens, dice: Dice, pairs: tuple[int, int], between: int
) -> Iterator[Scene]:
    """Scenes of pairs of names: a text with a pair in each sentence, a question with one name, the
    other as the reply. What stands between question and reply is then the method's own prompt.

    Args:
        tokens: What they are made of.
        dice: Draws names and words.
        pairs: (least, most) pairs.
        between: Most words between the two names.
    """
    names_to_pair = _draw_distinct(dice, tokens.words, 2 * dice.between(*pairs))
    sentences: list[str] = []
    lookups: list[tuple[str, str]] = []
    for first, second in zip(names_to_pair[::2], names_to_pair[1::2], strict=True):
        pair_in_words = f"{_draw_filler(dice, 2)}{first} {_draw_filler(dice, between)}{second}"
        sentence = f"{pair_in_words} {_draw_filler(dice, 2)}".strip()
        sentences.append(f"{sentence}.")
        lookups.append(_in_random_order(dice, first, second))
    text = dice.pick((" ", "\n", "\n\n")).join(sentences)
    for named, target in lookups:
        question_words = (
            f"{_draw_filler(dice, between)}{named} {_draw_filler(dice, between)}".strip()
        )
        question = Question(id="scene", text=f"{question_words}?", document_ids=("scene",))
        yield Scene(question, (text,), task=answer_task("musique"), replies=(target,))


def part_scenes(
    tokens: DrillTokens, dice: Dice, n_parts_range: tuple[int, int], between: int
) -> Iterator[Scene]:
    """Scenes of kind "triage": which of the shown parts has a name? The texts are an empty working
    memory, then the parts, which may be empty where names run out; the reply is "Action: 2", with
    the number of the part from 0.

    Args:
        tokens: What they are made of.
        dice: Draws names and words.
        n_parts_range: (least, most) parts.
        between: Most names of a part.
    """
    max_names_per_part = max(1, between)
    n_parts = dice.between(*n_parts_range)
    drawn_names = [dice.pick(tokens.words) for _ in range(n_parts * max_names_per_part)]
    names_left = list(dict.fromkeys(drawn_names))  # each once
    texts: list[str] = [""]  # the working memory
    part_of_name: list[tuple[str, int]] = []  # (name, number of its part)
    names_by_part: list[list[str]] = []
    for _ in range(n_parts):
        names_in_part = [
            names_left.pop() for _ in range(dice.between(1, max_names_per_part)) if names_left
        ]
        names_by_part.append(names_in_part)
    for part_number, names_in_part in enumerate(names_by_part):
        words = [f"{name} {_draw_filler(dice, 3)}".strip() for name in names_in_part]
        texts.append(" ".join(words))
        part_of_name += [(name, part_number) for name in names_in_part]
    for name, part_number in dice.shuffled(part_of_name)[:_MAX_QUESTIONS_IN_PROMPTS]:
        name_among_words = f"{_draw_filler(dice, 3)}{name} {_draw_filler(dice, 3)}".strip()
        question = Question(id="scene", text=f"{name_among_words}?", document_ids=("scene",))
        reply = f"Action: {part_number}"
        yield Scene(question, tuple(texts), task=answer_task("musique"), replies=(reply,))


def _draw_filler(dice: Dice, max_count: int) -> str:
    """Random words, each followed by a space: "river born "; there may be none.

    Args:
        dice: Draws how many words and which.
        max_count: Most words.
    """
    words = ""
    for _ in range(dice.below(max_count + 1)):
        words += f"{dice.pick(_FILLER_WORDS).strip()} "
    return words


DRILLS = {"recall": pair_drill, "parts": parts_drill}
"""Exercises that no method asks for, by the name that a curriculum gives them."""

PLAYED = {"question": pair_scenes, "triage": part_scenes}
"""Kind of scene -> exercises that its skills can play in their own prompts."""
