"""One question, from its documents to an answer on disk that is not scored yet.

    answer = AnswerQuestion(run)
    unscored = answer(example)      None where a limit of the command is reached

documents_for ─► indexes_for ─► ask_method ─► with_original_places ─► to_json_answer
                                            ─► spend_and_store: make_record, then on disk

With a corpus, a method that searches gets no documents, and any other one gets the best passages of
the corpus for the question as its document.

Gold is split off here: the method sees Question and Documents. What a method raises costs that
question and no more; a UserError, a failure to save and an interrupt end the run. Where several
questions are in flight, each is answered in a thread of its own.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from harness.cost.meter import Meter
from harness.cost.usage import Usage
from harness.engine.document_view import View
from harness.engine.made_documents import view_for_method
from harness.engine.named_sources import with_places
from harness.engine.open_run import OpenRun
from harness.engine.searching import (
    passages_as_documents,
    searches_for_record,
    with_passages_quoted,
)
from harness.engine.tools import EngineTools
from harness.method import Index
from harness.parallel.phases import phase
from harness.storage.added_texts import with_dataset_texts
from harness.storage.failures import STOPS, describe_failure
from harness.storage.kept_requests import request_rows
from harness.storage.record_texts import without_texts
from harness.storage.records import StoredPiece, StoredRecord, StoredSearch, StoredStep
from harness.storage.serialize import json_values
from harness.types import NOT_SCORED_YET, Answer, Document, Example, Question

EMPTY_DOCUMENT = Document("no document", "")
"""What stands for the documents where none is given or found, so that the question is asked and
counts; also where a method searches a corpus by itself."""


@dataclass(frozen=True)
class JsonAnswer:
    """An answer as the record holds it: the fields of harness.types.Answer as JSON values."""

    text: str
    shown: list[StoredPiece]
    stop_reason: str
    steps: list[StoredStep]
    truncated: dict[str, object] | None

    @classmethod
    def from_answer(cls, answer: Answer, not_finite: list[str]) -> JsonAnswer:
        """The JSON values of an answer.

        Args:
            answer: As the method gave it.
            not_finite: Written into: gets the place of each number that is not finite
                ("steps[2].p_yes"), which becomes null in the values.

        Raises:
            TypeError: The answer holds what JSON cannot hold.
        """
        values = json_values(answer, not_finite)
        return cls(
            text=values["text"],
            shown=values["shown"],
            stop_reason=values["stop_reason"],
            steps=values["steps"],
            truncated=values["truncated"],
        )


@dataclass
class Attempt:
    """One try to answer a question.

    Attributes:
        example: The question with its gold answers.
        meter: Counts what this try costs.
        start_time: When it began, by time.perf_counter.
        reply: The answer; without a text until the method has answered.
        error: What its record will say under "error": {"type", "message", ...} where the question
            failed; NOT_SCORED_YET where it was answered, which scoring clears; None while it is
            being answered.
        notes: What its record will say under "notes".
    """

    example: Example
    meter: Meter
    start_time: float = field(default_factory=time.perf_counter)
    reply: JsonAnswer = field(
        default_factory=lambda: JsonAnswer.from_answer(Answer(""), not_finite=[])
    )
    error: dict[str, str] | None = None
    notes: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Unscored:
    """An answer, or the reason why there is none, that is on disk and not scored.

    Attributes:
        example: The question with its gold answers.
        record: The record as it is stored, without scores.
    """

    example: Example
    record: StoredRecord


class AnswerQuestion:
    """Answers the questions of a run, one a call, and stores each answer."""

    def __init__(self, run: OpenRun) -> None:
        """Keep the open run, whose models, indexes and store every question uses."""
        self.run = run
        self._plan = run.plan
        self._config = run.plan.config

    def __call__(self, example: Example) -> Unscored | None:
        """Answer a question and store the answer; None, without asking, where a limit of the
        command (--max-tokens and its like) is reached."""
        if not self.run.budget.may_continue():
            return None
        return self.answer_and_store(self.new_attempt(example))

    def new_attempt(self, example: Example) -> Attempt:
        """A new try to answer a question, with a meter that has counted nothing yet."""
        meter = Meter(
            "answer",
            keeps_requests=self._config.keep_prompts,
            document=",".join(example.question.document_ids),
        )
        return Attempt(example, meter)

    def answer_and_store(self, attempt: Attempt) -> Unscored:
        """Answer the question of an attempt and store the answer, or why there is none. Also sets
        the attempt's reply, error and notes. Whatever the method raises costs this question alone;
        only errors that end the whole run (STOPS) are raised.

        Raises:
            UserError, SaveError: The run cannot go on.
            WaitsForBatch: The request is sent with a batch; nothing is stored yet.
        """
        try:
            view = self.documents_for(attempt)
            attempt.notes |= view.notes
            question = self.question_for(view, attempt.example)
            indexes = self.indexes_for(view, question, attempt.example)
            answer = self.ask_method(view, question, indexes, attempt)
            answer = self.with_original_places(view, answer, attempt)
            attempt.reply = self.to_json_answer(answer, attempt)
            attempt.error = NOT_SCORED_YET  # until its record has scores
        except STOPS:
            raise
        except Exception as error:  # noqa: BLE001 - of whatever type
            attempt.error = describe_failure(error)
        return self.spend_and_store(attempt)

    def store_failure(self, example: Example, error: Exception) -> Unscored:
        """Store a question that failed outside of `answer_and_store`, as where its worker process
        ended.

        Args:
            example: The question.
            error: Why it has no answer; its record says so.
        """
        attempt = self.new_attempt(example)
        attempt.error = describe_failure(error)
        return self.spend_and_store(attempt)

    def documents_for(self, attempt: Attempt) -> View:
        """The documents that the method sees for a question: those of the question, or with a
        corpus the passages that were retrieved for it. With the view "evidence" only their
        supporting parts remain, and for a method that takes one document they are joined."""
        documents = self.given_or_retrieved_documents(attempt) or [EMPTY_DOCUMENT]
        supporting = None
        if self._config.method.view == "evidence":
            supporting = attempt.example.gold.supporting
        joins_documents = self._plan.method.traits.one_document
        return view_for_method(documents, supporting, joins_documents=joins_documents)

    def given_or_retrieved_documents(self, attempt: Attempt) -> list[Document]:
        """The documents of a question, as the data set gives them. In a run with a corpus: the best
        passages of the corpus, each as a document, and none for a method that searches the corpus
        by itself. The attempt's meter counts the search."""
        question = attempt.example.question
        corpus = self._plan.corpus
        if corpus is None:
            documents = self._plan.dataset.documents
            return [documents[document_id] for document_id in question.document_ids]
        if corpus.n_passages is None:  # the method searches by itself
            return []
        with attempt.meter.phase("search"):
            searcher = self.run.searches.searcher(documents=())  # of the corpus
            hits = searcher.search(question.text, corpus.n_passages, attempt.meter)
            return passages_as_documents(hits)

    def question_for(self, view: View, example: Example) -> Question:
        """The question with the ids of the documents that the method sees. They differ from the
        data set's where documents are joined, cut to their supporting parts, or retrieved from a
        corpus."""
        joins_documents = self._plan.method.traits.one_document
        cuts_documents = self._config.method.view == "evidence"
        retrieves_documents = self._plan.corpus is not None
        if joins_documents or cuts_documents or retrieves_documents:
            return replace(example.question, document_ids=tuple(view.pieces))
        return example.question

    def indexes_for(self, view: View, question: Question, example: Example) -> list[Index]:
        """The index of each document: from memory, from the cache, or built now. Afterwards marks
        the question's documents as indexed, also where that failed.

        Args:
            view: The documents as the method sees them.
            question: The question with the ids of these documents.
            example: The question as the data set has it; all of its documents are marked, also
                those that the view leaves out.
        """
        try:
            return self.run.indexer.indexes_for(view.documents, question)
        finally:
            self.run.indexer.mark_as_indexed(example.question)

    def ask_method(
        self, view: View, question: Question, indexes: list[Index], attempt: Attempt
    ) -> Answer:
        """The method's answer. It sees the question and the documents, never the gold answers.
        Seeds the random generators for this question first.

        Args:
            view: The documents as the method sees them.
            question: The question with the ids of these documents.
            indexes: The index of each document.
            attempt: Its meter counts the cost.

        Raises:
            TypeError: The method returned no Answer. Also whatever the method raises.
        """
        self.run.models.reseed("answer", question.id)
        tools = EngineTools(
            self.run.models, attempt.meter, self._plan.task, self.run.progress.show_step
        )
        tools.question = question
        tools.searcher = self.run.searches.searcher(view.documents)
        with phase("answers"):
            answer: object = self._plan.method.answer(question, view.documents, indexes, tools)
        if not isinstance(answer, Answer) or not isinstance(answer.text, str):
            name = type(self._plan.method).__name__
            raise TypeError(f"{name}.answer returned no Answer with a text")
        return answer

    def with_original_places(self, view: View, answer: Answer, attempt: Attempt) -> Answer:
        """The answer with what it shows, names and quotes as spans of the data set's documents. In a
        run with a corpus, shown passages, which are in none of these, become their text (quotes).

        Args:
            view: The documents as the method saw them.
            answer: The method's answer, with spans of these documents.
            attempt: The attempt that gave it; its meter has the searches.
        """
        dataset = self._plan.dataset
        document_ids = attempt.example.question.document_ids
        documents = [dataset.documents[document_id] for document_id in document_ids]
        answer = view.with_original_spans(answer)
        if self._plan.corpus is not None:
            answer = with_passages_quoted(answer, attempt.meter.searches)
        return with_places(answer, documents, dataset.page_spans)

    def searches_for(self, attempt: Attempt) -> list[StoredSearch] | None:
        """The searches of an attempt as its record holds them (query, seconds, passages found with
        their places); None for a run without a corpus whose method does not search."""
        if self._plan.corpus is None and not self._plan.method.traits.searches:
            return None
        dataset = self._plan.dataset
        document_ids = attempt.example.question.document_ids
        documents = [dataset.documents[document_id] for document_id in document_ids]
        searches = searches_for_record(attempt.meter, documents, dataset.page_spans)
        stored: list[StoredSearch] = json_values(searches, not_finite=[])
        return stored

    def to_json_answer(self, answer: Answer, attempt: Attempt) -> JsonAnswer:
        """The answer as JSON values. Also writes into the attempt's notes, under "not_finite", the
        places of numbers that are not finite.

        Raises TypeError for what JSON cannot hold, so that this question fails now, and not after
        it was scored.
        """
        not_finite: list[str] = []
        reply = JsonAnswer.from_answer(answer, not_finite)
        if not_finite:
            attempt.notes["not_finite"] = not_finite
        return reply

    def make_record(self, attempt: Attempt, usage: Usage) -> StoredRecord:
        """The record of an attempt, without scores: its answer, cost, searches, error and notes. To
        the notes are added the seconds since the attempt began, and what earlier tries to answer
        the question have sent.

        Args:
            attempt: The attempt.
            usage: What it cost.
        """
        question = attempt.example.question
        documents = self._plan.dataset.documents
        notes = {**attempt.notes, "seconds": round(time.perf_counter() - attempt.start_time, 6)}
        sent_by_earlier_tries = self.run.earlier_tries.get(question.id)
        if sent_by_earlier_tries:
            notes["earlier"] = sent_by_earlier_tries
        reply = attempt.reply
        return StoredRecord(
            question_id=question.id,
            document_ids=list(question.document_ids),
            document_characters=[len(documents[each].text) for each in question.document_ids],
            prediction=reply.text,
            scores={},
            usage=json_values(usage, not_finite=[]),
            shown=reply.shown,
            stop_reason=reply.stop_reason,
            steps=reply.steps,
            searches=self.searches_for(attempt),
            truncated=reply.truncated,
            error=attempt.error,
            notes=notes,
        )

    def spend_and_store(self, attempt: Attempt) -> Unscored:
        """Add the cost of an attempt to what the command has spent against its limits, and write
        its record to disk, where it waits to be scored. Also writes the texts that it quotes, or
        takes them out of it (dataset.keep_texts), and the requests that were sent where they are
        kept (--keep-prompts)."""
        usage = attempt.meter.usage()
        self.run.budget.spend(usage)
        record = self.make_record(attempt, usage)
        store = self.run.store
        if self._config.dataset.keep_texts:
            documents = self._plan.dataset.documents
            record, long_texts = with_dataset_texts(record, attempt.example, documents)
            store.append_texts(long_texts)
        else:
            record = without_texts(record)
        if attempt.meter.requests:
            owner = {"question_id": attempt.example.question.id}
            store.append_requests(request_rows(attempt.meter.requests, owner))
        store.append_answer(record)
        return Unscored(attempt.example, record)
