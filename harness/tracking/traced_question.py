"""The questions of a run with all that their traces show.

    for question in traced_questions(run, {"q1", "q2"}):
        question.record.prediction, question.requests, question.start_seconds

A record has no moment. So the start of a question is an estimate: questions follow each other from
the start of the run, as many at a time as the run had in flight.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.storage.kept_requests import StoredRequest, read_requests
from harness.storage.records import IndexLine, IndexOwner, StoredRecord
from harness.storage.run_folder import StoredRun

_MAX_TEXT_CHARACTERS = 4000


@dataclass(frozen=True)
class TracedQuestion:
    """A question with what its trace shows.

    Attributes:
        run: The run.
        record: The question's record.
        indexes: The indexes that no earlier question of the run used.
        texts: Long texts by checksum.
        requests: Its requests in order.
        start_seconds: When it is taken to have started, in seconds since 1970.
    """

    run: StoredRun
    record: StoredRecord
    indexes: Sequence[IndexLine]
    texts: Mapping[str, str]
    requests: Sequence[StoredRequest]
    start_seconds: float


def traced_questions(run: StoredRun, question_ids: set[str]) -> Iterator[TracedQuestion]:
    """Yield the questions with these ids, in the order of the records, with all that traces show.

    Their starts are estimates: questions follow each other from the start of the run, as many at a
    time as the run had in flight. Long texts of their requests are cut.
    """
    texts = run.texts([record for record in run.records if record.question_id in question_ids])
    requests_by_question = read_requests(run.path, question_ids, cut_middle)
    unused_indexes = {line.owner: line for line in run.index_lines}
    start_seconds = _start_in_seconds(run)
    max_in_flight = run.manifest.max_in_flight
    for record in run.records:
        indexes = _take_unused_indexes(record, unused_indexes)
        requests = requests_by_question.get(record.question_id, [])
        if record.question_id in question_ids:
            yield TracedQuestion(
                run=run,
                record=record,
                indexes=indexes,
                texts=texts,
                requests=requests,
                start_seconds=start_seconds,
            )
        start_seconds += (record.seconds or 0.0) / max_in_flight


def _start_in_seconds(run: StoredRun) -> float:
    """When the run started, in seconds since 1970; 0 where its manifest does not say."""
    started = run.manifest.started
    if not started:
        return 0.0
    return datetime.fromisoformat(started).timestamp()


def _take_unused_indexes(
    record: StoredRecord, unused: dict[IndexOwner, IndexLine]
) -> list[IndexLine]:
    """Take the indexes of a question's documents out of `unused`,
    which is changed, and return them.

    Args:
        record: The question's record.
        unused: The indexes that no earlier question used.
    """
    taken = []
    for document_id in record.document_ids:
        # An index belongs to a document, for all questions (None) or for one.
        for question_id in (None, record.question_id):
            line = unused.pop(IndexOwner(document_id, question_id), None)
            if line is not None:
                taken.append(line)
    return taken


def cut_middle(text: str, max_characters: int = _MAX_TEXT_CHARACTERS) -> str:
    r"""Cut the middle out of a longer text, not its end, where a prompt has its question.

    "<first two thirds>\n[... 812 characters ...]\n<last third>"
    """
    if len(text) <= max_characters:
        return text
    n_first = max_characters * 2 // 3
    n_last = max_characters // 3
    n_cut = len(text) - n_first - n_last
    return f"{text[:n_first]}\n[... {n_cut} characters ...]\n{text[-n_last:]}"
