"""What a run's models and rows are by their content, beside what is publicly known of the paper's
(published.yaml).

A name proves nothing: a folder may be called like the paper's model. So sizes, the hub's id, the
tokens of the first prompt and its chat template up to the prompt itself are compared; `unchecked`
names what could not be.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.storage.manifest_file import FirstPrompt
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from reports.by_kind import kind_of_question
from reports.paper.preset import Model, last_part
from reports.paper.published import (
    NOTHING_KNOWN,
    PublishedModel,
    PublishedSplit,
    published,
    training_ids,
)

_PLACEHOLDER = re.compile(r"\{[a-z_]+\}")
"""A placeholder of a prompt, as in harness.prompts."""
_SYSTEM = ", system"
"""How the manifest names the system turn of a prompt."""


@dataclass
class Findings:
    """What was found of a run beside a printed value.

    Args:
        reasons: Sentences that forbid a verdict.
        unchecked: What nothing here proves: "weights", "rows".
        remarks: Sentences that stand beside a verdict.
    """

    reasons: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def add(self, other: "Findings") -> None:
        """Append to this one what was found of another part of the run."""
        self.reasons += other.reasons
        self.unchecked += other.unchecked
        self.remarks += other.remarks


def model_differences(run: StoredRun, role: str, paper: Model) -> Findings:
    """How the content of a role's model or encoder differs from the paper's.

    Compared are its weights, sizes and, where they are published, tokenizer and chat template.

    Args:
        run: The run.
        role: The role: "reader".
        paper: The paper's model.
    """
    recorded = run.manifest.identity(role)
    problem = _weights_problem(recorded, role, paper)
    if problem is not None:
        return Findings([problem])
    # Also weights with an id of the hub: which files they were, only the run itself says.
    found = Findings(unchecked=["weights"])
    found.reasons += _size_reasons(run, role, paper)
    known = published().models.get(paper.name)
    if known is None:
        return found
    first_prompt = run.manifest.first_prompts.get(role)
    if first_prompt is None:
        found.unchecked.append("chat template")
        return found
    found.reasons += _first_prompt_differences(
        first_prompt,
        run.manifest.prompts,
        known,
        sentence_start=f"model: the {role}'s",
        model_name=paper.name,
    )
    return found


def _weights_problem(recorded: Mapping[str, object], role: str, paper: Model) -> str | None:
    """Why the weights of a model are not the paper's, as a sentence; None where nothing speaks
    against it.

    Args:
        recorded: What the manifest says of the model.
        role: Its role.
        paper: The paper's model.
    """
    quantised = recorded.get("quantised")
    if quantised:
        return (
            f"model: the {role}'s weights are quantised ({quantised}), the paper's are {paper.name}"
        )
    weights = recorded.get("weights")
    if isinstance(weights, Mapping) and "hub" in weights:
        return _hub_problem(str(weights["hub"]), role, paper)
    if "served" in recorded:
        return None
    if weights is None:
        return f"model: what the {role}'s weights are is not recorded"
    if isinstance(weights, Mapping) and "files" not in weights:
        return (
            f"model: the {role}'s weights come from a quantised file, the paper's are {paper.name}"
        )
    return None


def _hub_problem(hub: str, role: str, paper: Model) -> str | None:
    """Why a model with this id of the hub is not the paper's, as a sentence; None where it may be.

    Args:
        hub: The id: "meta-llama/Llama-3.1-8B-Instruct".
        role: The role of the model.
        paper: The paper's model.
    """
    names_of_paper_model = {last_part(hub_id).lower() for hub_id in _hubs(paper)}
    if last_part(hub).lower() not in names_of_paper_model:
        return f"model: the {role} is {last_part(hub)}, the paper's is {paper.name}"
    other = other_owner(hub, paper)
    if other is None:
        return None
    return f"model: the {role} is {other}"


def _size_reasons(run: StoredRun, role: str, paper: Model) -> list[str]:
    """One sentence on why a model's sizes (layers, heads, width) may not be the paper's; [] where
    they are.

    Weights with an id of the hub are known by that id, so their sizes need not be recorded.

    Args:
        run: The run.
        role: The role of the model.
        paper: The paper's model.
    """
    if run.manifest.shapes.get(role) is None:
        weights = run.manifest.identity(role).get("weights")
        has_hub_id = isinstance(weights, Mapping) and "hub" in weights
        if paper.shape and not has_hub_id:
            return [f"model: the {role}'s sizes are not recorded; run it again"]
        return []
    differing_sizes = other_sizes(run, role, paper)
    if not differing_sizes:
        return []
    sizes_in_words = ", ".join(differing_sizes)
    return [f"model: the {role} has other sizes than {paper.name} ({sizes_in_words})"]


def other_sizes(run: StoredRun, role: str, paper: Model) -> list[str]:
    """The sizes in which a role's model differs from the paper's, "layers 30 instead of 32"; []
    where none is recorded.

    Args:
        run: The run.
        role: The role of the model.
        paper: The paper's model.
    """
    sizes = run.manifest.shapes.get(role)
    if sizes is None:
        return []
    differing_sizes = []
    for key, size in paper.shape.items():
        if sizes.get(key) != size:
            differing_sizes.append(f"{key} {sizes.get(key)} instead of {size}")
    return differing_sizes


def other_owner(source: str, paper_model: Model) -> str | None:
    """The end of a sentence where a hub id is of another owner than the paper's model.

        -> "someone/llama-8b, the paper's is meta-llama/llama-8b"

    Args:
        source: An id of the hub, a folder, or a bare name.
        paper_model: The paper's model.

    Returns:
        The words; None for the same owner, and for a folder or a bare name.
    """
    if source.startswith(("/", ".", "~")) or "/" not in source:
        return None
    hubs = _hubs(paper_model)
    if source.lower() in {hub_id.lower() for hub_id in hubs}:
        return None
    return f"{source}, the paper's is {hubs[0]}"


def _hubs(paper_model: Model) -> list[str]:
    """The ids of the hub by which a model is known, the newest first."""
    known = published().models.get(paper_model.name)
    if known is None:
        return [paper_model.source]
    return list(known.hubs)


def _first_prompt_differences(
    first: FirstPrompt,
    prompts: Mapping[str, str],
    known: PublishedModel,
    *,
    sentence_start: str,
    model_name: str,
) -> list[str]:
    """One sentence where a first prompt lacks the chat template or token ids of a model; else [].

    Args:
        first: The prompt as it was sent.
        prompts: Name -> prompt, of the run.
        known: What is published of the paper's model.
        sentence_start: The beginning of the sentence, "model: the reader's".
        model_name: The name of the paper's model.
    """
    other_template = f"{sentence_start} chat template is not that of {model_name}"
    text = str(first.text)
    ids = list(first.ids or ())
    if not text.startswith(known.opening):
        return [f"{other_template}: its first prompt begins {text[:60]!r}"]
    if ids and ids[: len(known.ids)] != known.ids:
        other_tokenizer = f"{sentence_start} tokenizer is not that of {model_name}"
        return [f"{other_tokenizer}: its first prompt has the ids {ids[:5]}"]
    odd_text = _odd_text(text, prompts, known)
    if odd_text is None:
        return []
    return [f"{other_template}: {odd_text}"]


@dataclass(frozen=True)
class _Head:
    """How a first prompt may begin.

    Args:
        turn: The template up to the turn of the user.
        prompt: The prompt up to its first placeholder.
    """

    turn: str
    prompt: str


def _odd_text(text: str, prompts: Mapping[str, str], known: PublishedModel) -> str | None:
    """What stands in a first prompt that neither the template nor a prompt of the run has.

    That is text before the first placeholder of a prompt, or after its last one.

    Args:
        text: The first prompt as it was sent.
        prompts: Name -> prompt, of the run.
        known: What is published of the paper's model.

    Returns:
        A phrase on it; None where there is nothing.
    """
    heads, ends = _heads_and_ends(prompts, known)
    before_answer, _, _ = text.rpartition(known.closing)  # up to where the answer begins
    if not before_answer:
        # A turn that is still read, or a text that is scored: it may break off in the template.
        for head in heads:
            if text.startswith(head.turn) or head.turn.startswith(text):
                return None
        return _before_prompt(text, known)
    begins_like_a_prompt = any(text.startswith(head.turn + head.prompt) for head in heads)
    if not begins_like_a_prompt:
        return _before_prompt(text, known)
    if not before_answer.rstrip().endswith(tuple(ends)):
        return f"it adds {before_answer[-60:]!r} to a prompt"
    return None


def _heads_and_ends(
    prompts: Mapping[str, str], published_model: PublishedModel
) -> tuple[list[_Head], list[str]]:
    r"""How a first prompt may begin, and its possible last words, of each prompt of a run.

        "Read. {text}\nAnswer:"     -> the head "Read. " and the end "\nAnswer:"

    Args:
        prompts: Name -> prompt, of the run.
        published_model: What is published of the model, of which a head begins with the template.
    """
    heads = []
    ends = []
    for name, prompt in prompts.items():
        if name.endswith(_SYSTEM):
            continue
        texts_between_placeholders = _PLACEHOLDER.split(prompt)
        system = prompts.get(name + _SYSTEM, published_model.system).strip()
        turn = f"{published_model.opening}{system}{published_model.user}"
        heads.append(_Head(turn, prompt=texts_between_placeholders[0].lstrip()))
        ends.append(texts_between_placeholders[-1].rstrip())
    return heads, ends


def _before_prompt(text: str, known: PublishedModel) -> str:
    """A phrase with the first 80 characters after the opening of the template."""
    before = text.removeprefix(known.opening)[:80]
    return f"between its opening and a prompt of the run stands {before!r}"


def row_differences(run: StoredRun, dataset: str, split: str) -> Findings:
    """How the run's questions differ from the official split in what is published of it.

    Args:
        run: The run.
        dataset: The name of the data set.
        split: The name of the official split: "validation".
    """
    known = published().splits.get(f"{dataset} {split}", NOTHING_KNOWN)
    return Findings(
        reasons=[
            *_question_reasons(run, dataset, known),
            *_document_reasons(run, dataset, split, known),
            *_kind_reasons(run, known),
        ],
        unchecked=_unchecked_rows(run),
    )


def _unchecked_rows(run: StoredRun) -> list[str]:
    """Which of "rows" and "retrieved documents" no checksum or revision fixes; [] for neither."""
    config = run.config.dataset
    unchecked = []
    # A local file, or a data set of the hub without a revision.
    if config.data or not run.manifest.dataset.revision:
        unchecked.append("rows")
    if config.options.get("documents"):  # a local file of them
        unchecked.append("retrieved documents")
    return unchecked


def _question_reasons(run: StoredRun, dataset: str, published_split: PublishedSplit) -> list[str]:
    """Sentences on training questions, repeated ones, and ids of another form.

    Args:
        run: The run.
        dataset: The name of the data set.
        published_split: What is published of its split.
    """
    # A repeated id has a suffix of the loader's ("x#2").
    ids = [str(record.question_id).partition("#")[0] for record in run.records]
    reasons = []
    n_trained = sum(1 for question_id in ids if _id_digest(question_id) in training_ids())
    if n_trained:
        reasons.append(f"sample: {n_trained} of {len(ids)} questions are training rows")
    distinct_questions = {_question_key(record) for record in run.records_with_texts}
    n_repeated = len(ids) - len(distinct_questions)
    if n_repeated:
        reasons.append(f"sample: {n_repeated} of {len(ids)} questions stand there twice")
    if published_split.ids is None:
        return reasons
    n_other_form = 0
    for question_id in ids:
        if re.fullmatch(published_split.ids, question_id) is None:
            n_other_form += 1
    if n_other_form:
        reasons.append(
            f"sample: {n_other_form} of {len(ids)} ids are not of the form of {dataset}'s"
        )
    return reasons


def _id_digest(question_id: str) -> str:
    """The first 12 hex digits of an id's sha256, by which training_ids.txt lists ids."""
    return hashlib.sha256(question_id.encode()).hexdigest()[:12]


def _question_key(record: StoredRecord) -> tuple[str, tuple[int, ...], str]:
    """A key that is equal for records with the same question, gold answers and document lengths;
    with the id in place of a question that was not kept."""
    text = record.question
    if text is None:
        text = record.question_id
    sizes = tuple(record.document_characters or ())
    return text, sizes, str(record.gold_answers)


def _document_reasons(run: StoredRun, dataset: str, split: str, known: PublishedSplit) -> list[str]:
    """One sentence where the documents are not those of the official split; else [].

    Args:
        run: The run.
        dataset: The name of the data set.
        split: The name of the official split.
        known: What is published of it.
    """
    ids: set[str] = set()
    for record in run.records:
        ids.update(map(str, record.document_ids))
    if known.documents is not None and len(ids) != known.documents:
        return [f"sample: {len(ids)} documents, the {split} split has {known.documents}"]
    sorted_ids = "\n".join(sorted(ids))
    digest = hashlib.sha256(sorted_ids.encode()).hexdigest()
    if known.sha256 is not None and digest != known.sha256:
        return [f"sample: the documents are not those of {dataset}'s {split} split"]
    return []


def _kind_reasons(run: StoredRun, known: PublishedSplit) -> list[str]:
    """A sentence for each criterion by which the run has other numbers of questions of a kind.

    -> ["sample: other numbers of each hops: 2 1251 (official 1252), ..."]
    """
    reasons = []
    for criterion, official in known.kinds.items():
        found = Counter(kind_of_question(record, criterion) for record in run.records_with_texts)
        no_kind_is_known = set(found) == {None}
        if no_kind_is_known or found == Counter(official):
            continue
        counts = [f"{name} {found[name]} (official {n})" for name, n in official.items()]
        reasons.append(f"sample: other numbers of each {criterion}: {', '.join(counts)}")
    return reasons
