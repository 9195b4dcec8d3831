"""The corpus of a run, as it is planned: what it is, and how the method uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.config.resolve import Settings
from harness.config.schema import GeneralSettings, json_sha256
from harness.engine.asked_questions import LoadedQuestions
from harness.engine.findings import Findings
from harness.errors import call_noting_problem
from harness.method import Method
from harness.retrieval.open_corpus import read_corpus_facts
from harness.retrieval.search_index import CorpusDescription


@dataclass(frozen=True)
class PlannedCorpus:
    """The corpus of a run.

    Attributes:
        location: The corpus's folder, or the address of a served one.
        n_passages: How many of the best form the document that the method reads; None for a method
            that searches by itself.
        description: What the manifest says of it: the kind of ranking, file, number of documents.
        identity: What identifies its index, for the run's hash.
    """

    location: str
    n_passages: int | None
    description: CorpusDescription
    identity: Mapping[str, object]

    @property
    def searched(self) -> str:
        """What is searched, "wiki.jsonl bm25 1a2b"; the digits are of the index's identity."""
        ranked_by = self.description.kind
        encoder = self.description.encoder
        if encoder is not None:
            ranked_by = f"{ranked_by} {encoder}"
        return f"{self.description.corpus} {ranked_by} {json_sha256(self.identity)[:4]}"

    @property
    def mark(self) -> str:
        """What tables add to the name of the method: "corpus wiki.jsonl bm25 1a2b, 20 passages",
        the number only where it is not the default."""
        text = f"corpus {self.searched}"
        default = GeneralSettings.model_fields["corpus_passages"].default
        if self.n_passages not in (None, default):
            text += f", {self.n_passages} passages"
        return text

    @property
    def hashed(self) -> dict[str, object]:
        """What of the corpus changes a prediction: the index's identity and the number of
        passages."""
        return {"index": self.identity, "passages": self.n_passages}

    def as_json(self) -> dict[str, object]:
        """The corpus as manifest.json has it: its description, `searched` and `hashed`."""
        return {**self.description.to_json(), "searched": self.searched, "hashed": self.hashed}


def with_search_scorers(
    questions: LoadedQuestions, method: Method, corpus: PlannedCorpus | None
) -> LoadedQuestions:
    """The questions, with the scorers of searches added to their data set's settings: those that
    can score one of the questions, by its supporting marks, gold passages, or passages that hold
    the answer. Unchanged for a run that searches nothing.

    Args:
        questions: The questions with their data set's settings.
        method: The run's method.
        corpus: The run's corpus, None for none.
    """
    if corpus is None and not method.traits.searches:
        return questions
    search_scorers: set[str] = set()
    for example in questions.dataset.examples:
        if example.gold.supporting:
            search_scorers |= {"search_recall", "search_recall_pages"}
        if example.gold.extra.get("gold_passages"):
            search_scorers.add("search_recall")
        if example.gold.extra.get("holding_answer"):
            search_scorers.add("search_recall_answer")
    scorers = tuple(dict.fromkeys([*questions.config.scorers, *sorted(search_scorers)]))
    return replace(questions, config=questions.config.model_copy(update={"scorers": scorers}))


def plan_corpus(settings: Settings, method: Method, findings: Findings) -> PlannedCorpus | None:
    """The corpus of a run, with how many of its passages the method reads; None without one, where
    the method does not use it, and where there is a mistake.

    Args:
        settings: The run's settings.
        method: The run's method.
        findings: Gets mistakes and warnings.
    """
    location = settings.general.corpus
    if location is None:
        return None
    method_name = settings.method.name
    if settings.general.retriever is not None:
        findings.add_problem("--corpus and --retriever say both what is searched; give one of them")
        return None
    if settings.method.view == "evidence":
        findings.add_problem(
            f"'{method_name}' reads what the data set marks as supporting; leave --corpus out"
        )
        return None
    if not method.traits.reads_documents:
        findings.warnings.append(f"'{method_name}' reads no documents: it does not use --corpus")
        return None
    facts = call_noting_problem(findings.problems, read_corpus_facts, location)
    if facts is None:
        return None
    n_passages: int | None = settings.general.corpus_passages
    if method.traits.searches:  # by itself, as many as it likes
        n_passages = None
    return PlannedCorpus(
        location=location,
        n_passages=n_passages,
        description=facts.described,
        identity=facts.identity,
    )
