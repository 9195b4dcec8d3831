"""A run as the opening sentences of a page see it: its score on the questions of the ranking, and
what these questions are about.

    Ranked("pecan", row, score=0.95, extent=Extent(n_questions=20, n_documents=7, ...))
    extent.about()           " about 7 documents"
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from harness.stats.question_clusters import has_clusters_of_one
from reports import facts
from reports.number_formats import with_noun
from reports.table_row import TableRow


@dataclass(frozen=True)
class Extent:
    """What a mean is over.

    Args:
        n_questions: The number of questions.
        n_asked: How many were asked; the others have no score.
        n_documents: The number of documents that they are about.
        n_clusters: The number of their clusters.
        cluster_noun: What a cluster is: "document"; "group of documents" where questions share some;
            or "question" where all are about one corpus or folder.
        about_folder: Whether they are about all pages of a folder.
        n_in_largest_cluster: The number of questions of the largest cluster.
    """

    n_questions: int
    n_asked: int
    n_documents: int
    n_clusters: int
    cluster_noun: str
    about_folder: bool
    n_in_largest_cluster: int

    @property
    def lacks_questions(self) -> bool:
        """Whether some questions that were asked have no score."""
        return self.n_questions < self.n_asked

    def about(self) -> str:
        """What the questions are about: " about 7 documents", " about 21 documents in 1 group";
        "" for a corpus."""
        if self.about_folder:
            return " about the folder"
        if self.cluster_noun == "question" or self.n_documents == 0:
            return ""
        documents = f" about {with_noun(self.n_documents, 'document')}"
        if self.cluster_noun == "document":
            return documents
        return f"{documents} in {with_noun(self.n_clusters, 'group')}"

    def clusters_in_words(self) -> str:
        """The number of clusters with its noun: "4 documents", "1 group of documents"."""
        if self.cluster_noun == "group of documents" and self.n_clusters != 1:
            return f"{self.n_clusters} groups of documents"
        return with_noun(self.n_clusters, self.cluster_noun)

    def few_clusters_in_words(self) -> str:
        """What there are too few of, in a sentence: "so few documents"."""
        if self.cluster_noun == "group of documents":
            return "so few groups of documents"
        return f"so few {self.cluster_noun}s"


@dataclass(frozen=True)
class Ranked:
    """A run as the opening sentences of a page see it.

    Args:
        method: Its name, with the model where the runs have several.
        row: Its row in the main table.
        score: Mean in [0, 1] over the questions of `extent`.
        low: Lower end of its 95 % interval, or None.
        high: Upper end, or None.
        extent: The questions that the mean is over.
    """

    method: str
    row: TableRow
    score: float
    low: float | None
    high: float | None
    extent: Extent

    @property
    def run_name(self) -> str:
        """Name of its folder."""
        return self.row.run.name

    @property
    def points(self) -> str:
        """The score as the tables write it, 0.95 -> "95.0"; methods with the same text are called
        equal."""
        return f"{100 * self.score:z.1f}"

    @property
    def is_zero(self) -> bool:
        """Whether the tables write its score as 0.0."""
        return float(self.points) == 0

    @property
    def points_in_words(self) -> str:
        """The score with the questions that it is over, where these are not all that were asked:
        "95.0 points", "33.3 points on 3 of 20 questions"."""
        points = f"{self.points} points"
        if not self.extent.lacks_questions:
            return points
        questions = with_noun(self.extent.n_asked, "question")
        return f"{points} on {self.extent.n_questions} of {questions}"


def ranked_run(
    method: str, row: TableRow, score: str, questions: Collection[str], n_asked: int
) -> Ranked:
    """A run with its mean score over some questions, and what these are about.

    Where they are all that the run has the score for, the mean and its interval are those of its
    row; over a part of them no interval is given.

    Args:
        method: What the run is called.
        row: Its row, which has the score for all of these questions.
        score: Name of the score.
        questions: The ids of the questions.
        n_asked: How many questions were asked.
    """
    scored = facts.score_values(row.run, score)
    value_by_question = scored.by_question()
    if len(value_by_question) == len(questions):
        estimate = row.score(score)
        assert estimate.mean is not None
        mean, low, high = estimate.mean, estimate.low, estimate.high
    else:
        values = [value_by_question[question] for question in scored.ids if question in questions]
        mean = sum(values) / len(values)
        low = high = None
    cluster_by_question = scored.clusters_by_question()
    n_questions_by_cluster = Counter(cluster_by_question[question] for question in questions)
    extent = _extent(
        row, questions, cluster_sizes=list(n_questions_by_cluster.values()), n_asked=n_asked
    )
    return Ranked(method=method, row=row, score=mean, low=low, high=high, extent=extent)


def _extent(
    row: TableRow, questions: Collection[str], cluster_sizes: list[int], n_asked: int
) -> Extent:
    """What a mean over some questions of a run is over.

    A cluster is a document; a group of documents where questions share some, so that there are
    fewer clusters than documents; or each question by itself where all are about one corpus or
    folder.

    Args:
        row: The row of the run.
        questions: The ids of the questions.
        cluster_sizes: The number of questions of each of their clusters.
        n_asked: How many questions were asked.
    """
    n_clusters = len(cluster_sizes)
    documents = facts.document_ids(row.run, questions)
    cluster_noun = "document"
    if row.asks_whole_folder or has_clusters_of_one(row.run.config.dataset.format):
        cluster_noun = "question"
    elif n_clusters < len(documents) and n_clusters < len(questions):
        cluster_noun = "group of documents"
    return Extent(
        n_questions=len(questions),
        n_asked=n_asked,
        n_documents=len(documents),
        n_clusters=n_clusters,
        cluster_noun=cluster_noun,
        about_folder=row.asks_whole_folder,
        n_in_largest_cluster=max(cluster_sizes),
    )
