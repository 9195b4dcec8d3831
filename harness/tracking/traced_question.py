"""The questions of a run with all that their traces show.

    for question in traced_questions(run, {"q1", "q2"}):
        question.record.prediction, question.requests, question.start

A record has no moment. So the start of a question is an estimate: questions follow each other from
the start of the run, as many at a time as the run had in flight.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.storage.kept_requests import StoredRequest, read_requests
from harness.storage.records import IndexLine, IndexOwner, StoredRecord
from harness.storage.run_folder import StoredRun

_LONGEST_TEXT = 4000


@dataclass(frozen=True)
class TracedQuestion:
    """A question with what its trace shows.

    Attributes:
        run: The run.
        record: The question's record.
        indexes: The indexes that no earlier question of the run used.
        texts: Long texts by checksum.
        requests: Its requests in order.
        start: When it is taken to have started, in seconds since 1970.
    """

    run: StoredRun
    record: StoredRecord
    indexes: Sequence[IndexLine]
    texts: Mapping[str, str]
    requests: Sequence[StoredRequest]
    start: float


def traced_questions(run: StoredRun, wanted: set[str]) -> Iterator[TracedQuestion]:
    """Yield the questions with these ids, in the order of the records,
    with all that their traces show.

    Their starts are estimates: questions follow each other from the start of the run, as many at a
    time as the run had in flight.
    """
    texts = run.texts([record for record in run.records if record.question_id in wanted])
    requests = read_requests(run.path, wanted, cut_middle)
    indexes = {line.owner: line for line in run.index_lines}
    start = _start(run)
    at_a_time = _parallel(run)
    for record in run.records:
        used_first = _indexes_used_first(record, indexes)
        sent = requests.get(record.question_id, [])
        if record.question_id in wanted:
            yield TracedQuestion(run, record, used_first, texts, sent, start)
        start += (record.seconds or 0.0) / at_a_time


def _start(run: StoredRun) -> float:
    """When the run started, in seconds since 1970; 0 where its manifest does not say."""
    started = run.manifest.started
    if not started:
        return 0.0
    return datetime.fromisoformat(started).timestamp()


def _parallel(run: StoredRun) -> int:
    """The most questions of the run that were in flight at once."""
    return run.manifest.max_in_flight


def _indexes_used_first(
    record: StoredRecord, unused: dict[IndexOwner, IndexLine]
) -> list[IndexLine]:
    """Take the indexes of a question's documents out of `unused`,
    which is changed, and return them.

    Args:
        record: The question's record.
        unused: The indexes that no earlier question used.
    """
    used = []
    for document_id in record.document_ids:
        for question_id in (None, record.question_id):
            line = unused.pop(IndexOwner(document_id, question_id), None)
            if line is not None:
                used.append(line)
    return used


def cut_middle(text: str, longest: int = _LONGEST_TEXT) -> str:
    r"""Cut the middle out of a text longer than `longest`, as a prompt has its question at the end.

    "<first two thirds>\n[... 812 characters ...]\n<last third>"
    """
    if len(text) <= longest:
        return text
    head = longest * 2 // 3
    tail = longest // 3
    return f"{text[:head]}\n[... {len(text) - head - tail} characters ...]\n{text[-tail:]}"
