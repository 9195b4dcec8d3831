"""What QRMeM asks, in this project's words; the paper's prompts (appendix E) and formulas ask the
same.

A prompt is a list of pieces, each encoded on its own, so that a document's words never run into
those around them.
"[Name]" in a segment marks an entity. The guiding questions are those of an update: there are none
in the first round.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.prompts import Pieces, Prompt
from harness.types import Question
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.memory import find_whole_words
from methods.reading import question_text

ENTITIES = Prompt(
    "entities",
    "Find the key entities in a part of a document, to help answer a question about the whole "
    "document.\n\n"
    "Question: {question}{summary}\n\n"
    "Part of the document:\n"
    "{segment}{guide}\n\n"
    "List the persons, places, times, organisations, works and other things that this part names "
    "and that matter here, as they are written there, each on a line that begins with '* '.\n\n"
    "Entities:",
)
RELATIONS = Prompt(
    "relations",
    "Describe how entities in a part of a document are related, to help answer a question.\n\n"
    "Question: {question}{summary}\n\n"
    "Part of the document:\n"
    "{segment}\n\n"
    "Entities:{entities}{guide}\n\n"
    "For each pair of the marked entities whose relation the part states, write one line: '* ', "
    "the first entity, ' | ', the second entity, ' | ', and one sentence that describes their "
    "relation. State only what is said there.\n\n"
    "Relations:",
)
QUESTIONS_ON_GRAPH = Prompt(
    "questions",
    "Look for what is missing in a graph of entities and relations that was made of a part of a "
    "document.{summary}\n\n"
    "Part of the document:\n"
    "{segment}\n\n"
    "Entities:{entities}\n\n"
    "Relations:{relations}\n\n"
    "Ask up to {count} different questions that this part answers and that would complete the "
    "graph, each on a line that begins with '* '.\n\n"
    "Questions:",
)
FUSION_QUESTIONS = Prompt(
    "fusion, questions",
    "Two parts of a document relate the same two entities. The two relations shall become one.\n\n"
    "Question: {question}{summary}\n\n"
    "Part 1:\n"
    "{first_part}\n\n"
    "Relation in part 1: {first_relation}\n\n"
    "Part 2:\n"
    "{second_part}\n\n"
    "Relation in part 2: {second_relation}\n\n"
    "What has to be clear before they are merged: are the entities the same, do the relations "
    "agree, and in which order of time? Ask up to {count} questions about it, each on a line that "
    "begins with '* '.\n\n"
    "Questions:",
)
FUSION_RELATION = Prompt(
    "fusion, relation",
    "Answer these questions for yourself, then write the one relation that holds in both parts, in "
    "one sentence.",
    first=False,
)
ASK = Prompt(
    "ask",
    "Read the text and answer a question about it.\n\n"
    "Text:{segments}\n\n"
    "Question: {question}\n\n"
    "The text ends here. If the answer CANNOT be inferred from it, choose action -1, and say in "
    "the reasoning what is known and what is missing. If it CAN, choose action -2 and give the "
    "answer. {instruction} Reply in this form:\n"
    "Reasoning: why\n"
    "Action: -1 or -2\n"
    "Answer: the answer, if the action is -2",
    answers=True,
)
TRIAL = Prompt(
    "entity trial",
    "Choose the entities of a document that lead to the parts which answer a question.\n\n"
    "Text read so far:{segments}\n\n"
    "Question: {question}{reason}\n\n"
    "Entities chosen so far:{chosen}\n\n"
    "Other entities of the document:{others}\n\n"
    "Which entities should be looked up now? List them, old and new, each on a line that begins "
    "with '* ', and no others.\n\n"
    "Entities:",
)
ELABORATE = Prompt(
    "elaborated question",
    "Turn a question into one that is easier to find an answer to.\n\nQuestion: "
    "{question}\n\nEntities:{entities}\n\n"
    "Relations:{relations}\n\nWrite one question that says what is still to be found, with what "
    "the relations tell. "
    "Write it on a line that begins with '* '.\n\nQuestion:",
)
# What stands in place of {summary}, {guide} and {reason} above where there is one.
DOCUMENT_SUMMARY = Prompt(
    "document summary", "\n\nWhat the whole document is about:\n{summary}", first=False
)
GUIDE = Prompt(
    "guiding questions",
    "\n\nPay attention to what these questions ask for:{questions}",
    first=False,
)
REASON = Prompt("missing so far", "\n\nWhy it does not answer the question: {reason}", first=False)

PROMPTS = (
    ENTITIES,
    RELATIONS,
    QUESTIONS_ON_GRAPH,
    FUSION_QUESTIONS,
    FUSION_RELATION,
    ASK,
    TRIAL,
    ELABORATE,
    DOCUMENT_SUMMARY,
    GUIDE,
    REASON,
)


class Relation(NamedTuple):
    """A relation with its source: the segment's text, and the relation's text."""

    segment: str
    text: str


def with_names_in_brackets(segment: str, names: Sequence[str]) -> str:
    """A segment with each occurrence of a name in brackets; longer names go first, none inside
    another.

        "Ann met Ann Lee.", ["Ann", "Ann Lee"] -> "[Ann] met [Ann Lee]."

    A part of a longer word is no occurrence, in scripts that separate words.
    """
    names_in_order = sorted({name for name in names if name})
    longest_first = sorted(names_in_order, key=len, reverse=True)
    end_of_name: dict[int, int] = {}
    bracketed_characters: set[int] = set()
    for name in longest_first:
        for position in find_whole_words(name, segment):
            characters = range(position, position + len(name))
            if bracketed_characters.isdisjoint(characters):
                end_of_name[position] = characters.stop
                bracketed_characters.update(characters)
    pieces: list[str] = []
    copied_up_to = 0
    for name_start, name_end in sorted(end_of_name.items()):
        pieces += [segment[copied_up_to:name_start], f"[{segment[name_start:name_end]}]"]
        copied_up_to = name_end
    return "".join([*pieces, segment[copied_up_to:]])


@dataclass(frozen=True)
class Requests:
    """Writes the requests about one question and document; sends none.

    Args:
        config: The settings, which may replace prompts.
        question: The question.
        summary: A summary of the whole document, "" for none.
    """

    config: QRMeMConfig
    question: Question
    summary: str = ""

    def entities(self, segment: str, guiding_questions: Sequence[str]) -> Pieces:
        """The request for the entities of a segment.

        Args:
            segment: The text of the segment.
            guiding_questions: Questions about what is missing; [] for none.
        """
        return self._fill(ENTITIES, segment=[segment], guide=self._guiding_part(guiding_questions))

    def relations(
        self, segment: str, names: Sequence[str], guiding_questions: Sequence[str]
    ) -> Pieces:
        """The request for the relations between entities of a segment.

        Args:
            segment: The text of the segment.
            names: The entities, as the segment writes them.
            guiding_questions: The questions that guide an update; [] at the first time.
        """
        return self._fill(
            RELATIONS,
            segment=[with_names_in_brackets(segment, names)],
            entities=_as_list(names),
            guide=self._guiding_part(guiding_questions),
        )

    def questions(self, segment: str, names: Sequence[str], relations: Sequence[str]) -> Pieces:
        """The request for questions about what the graph of a segment lacks.

        Args:
            segment: The text of the segment.
            names: The names in the graph.
            relations: The relations in the graph, "a | b | text" each.
        """
        return self._fill(
            QUESTIONS_ON_GRAPH,
            summary=DOCUMENT_SUMMARY.with_replacements(self.config).fill(summary=[self.summary]),
            segment=[segment],
            count=str(self.config.questions),
            entities=_as_list(names),
            relations=_as_list(relations),
        )

    def fusion_questions(self, first: Relation, second: Relation) -> Pieces:
        """The request for questions to clarify before two relations of one pair are merged; after
        the reply comes `fusion_relation`."""
        return self._fill(
            FUSION_QUESTIONS,
            count=str(self.config.questions),
            first_part=[first.segment],
            first_relation=[first.text],
            second_part=[second.segment],
            second_relation=[second.text],
        )

    def fusion_relation(self) -> str:
        """The text of the turn after `fusion_questions`, which asks for the one relation."""
        return FUSION_RELATION.with_replacements(self.config).text

    def ask(self, segments: Sequence[str], instruction: str) -> Pieces:
        """The request for the answer, or for what the segments lack to give it.

        Args:
            segments: The texts of the segments that were found.
            instruction: How to answer.
        """
        return self._fill(ASK, segments=_as_paragraphs(segments), instruction=instruction)

    def trial(
        self, segments: Sequence[str], reason: str, chosen: Sequence[str], others: Sequence[str]
    ) -> Pieces:
        """The request that asks which entities to look up next.

        Args:
            segments: The texts of the segments that were read.
            reason: Why they do not answer; "" for no reason.
            chosen: The names of the entities that were chosen before.
            others: The names of the other entities.
        """
        reason_part: Sequence[str] = []
        if reason:
            reason_part = REASON.with_replacements(self.config).fill(reason=[reason])
        return self._fill(
            TRIAL,
            segments=_as_paragraphs(segments),
            reason=reason_part,
            chosen=_as_list(chosen),
            others=_as_list(others),
        )

    def elaborate(self, names: Sequence[str], relations: Sequence[str]) -> Pieces:
        """The request for an elaborated question.

        Args:
            names: The names of the entities that the search has reached.
            relations: The edges that it has reached, "a ; relation ; b" each.
        """
        return self._fill(ELABORATE, entities=_as_list(names), relations=_as_list(relations))

    def _fill(self, prompt: Prompt, **values: str | Sequence[str]) -> Pieces:
        """Fill a prompt with the question, the document's summary and further values by name."""
        summary_part: Sequence[str] = []
        if self.summary:
            summary_part = DOCUMENT_SUMMARY.with_replacements(self.config).fill(
                summary=[self.summary]
            )
        field_values: dict[str, str | Sequence[str]] = {
            "question": [question_text(self.question)],
            "summary": summary_part,
        }
        field_values.update(values)
        return prompt.with_replacements(self.config).fill(**field_values)

    def _guiding_part(self, guiding_questions: Sequence[str]) -> Sequence[str]:
        """The part of a prompt with the questions that guide an update; [] for none."""
        if not guiding_questions:
            return []
        return GUIDE.with_replacements(self.config).fill(questions=_as_list(guiding_questions))


def _as_list(texts: Sequence[str]) -> list[str]:
    r"""The pieces of a list in a prompt: ["a", "b"] -> ["\n* ", "a", "\n* ", "b"]; one of the line
    "none" where it is empty."""
    return _with_mark_before_each("\n* ", texts or ("none",))


def _as_paragraphs(segments: Sequence[str]) -> list[str]:
    r"""The pieces of segments in a prompt: ["a", "b"] -> ["\n\n", "a", "\n\n", "b"]."""
    return _with_mark_before_each("\n\n", segments)


def _with_mark_before_each(mark: str, texts: Sequence[str]) -> list[str]:
    """Pieces of a prompt, with the mark before each text: "-", ["a", "b"] -> ["-", "a", "-",
    "b"]."""
    pieces: list[str] = []
    for text in texts:
        pieces += [mark, text]
    return pieces
