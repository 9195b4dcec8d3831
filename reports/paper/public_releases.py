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
from functools import cache
from importlib import resources
from typing import Any

import yaml

from harness.datasets.question_kinds import KINDS
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from reports.by_kind import kind_of_question
from reports.paper.preset import Model, last_part

_PLACE = re.compile(r"\{[a-z_]+\}")
"""A placeholder of a prompt, as in harness.prompts."""
_SYSTEM = ", system"
"""How the manifest names the system turn of a prompt."""


@dataclass
class Findings:
    """What was found of a run beside a printed value.

    Args:
        reasons: Sentences that forbid a verdict.
        unchecked: "weights", "rows": what nothing here proves.
        marks: Sentences beside a verdict.
    """

    reasons: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)

    def add(self, other: "Findings") -> None:
        """Append what was found of another part of the run."""
        self.reasons += other.reasons
        self.unchecked += other.unchecked
        self.marks += other.marks


@cache
def _published_facts() -> dict[str, Any]:
    text = (resources.files("reports.paper") / "published.yaml").read_text("utf-8")
    facts: dict[str, Any] = yaml.safe_load(text)
    return facts


def _published_model(name: str) -> Mapping[str, Any]:
    """What is published of a model; {} for nothing."""
    return _published_facts()["models"].get(name) or {}


@cache
def _training_ids() -> frozenset[str]:
    """The first 12 hex digits of the sha256 of each training question's id."""
    text = (resources.files("reports.paper") / "training_ids.txt").read_text("utf-8")
    return frozenset(text.split())


def model_differences(run: StoredRun, role: str, paper: Model) -> Findings:
    """How the content of a role's model or encoder differs from the paper's."""
    recorded = run.manifest.identity(role)
    problem = _weights_problem(recorded, role, paper)
    if problem is not None:
        return Findings([problem])
    # Weights of the hub, too: a run says itself which commit it had.
    found = Findings(unchecked=["weights"])
    found.reasons += _size_reasons(run, role, paper)
    published = _published_model(paper.name)
    found.reasons += _template_differences(run, role, published, paper.name)
    if "opening" in published and role not in run.manifest.first_prompts:
        found.unchecked.append("chat template")
    return found


def _weights_problem(recorded: Mapping[str, Any], role: str, paper: Model) -> str | None:
    """Why the weights of a model are not the paper's; None where nothing speaks against it.

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
    """Why a model with this id of the hub is not the paper's; None where it may be."""
    known = {last_part(hub_id).lower() for hub_id in _hubs(paper)}
    if last_part(hub).lower() not in known:
        return f"model: the {role} is {last_part(hub)}, the paper's is {paper.name}"
    other = other_owner(hub, paper)
    if other is None:
        return None
    return f"model: the {role} is {other}"


def _size_reasons(run: StoredRun, role: str, paper: Model) -> list[str]:
    """Why a model's sizes (layers, heads, width) may not be those of the paper's; [] where they are.

    Weights with an id of the hub are known by that id, so their sizes need not be recorded.
    """
    if run.manifest.shapes.get(role) is None:
        weights = run.manifest.identity(role).get("weights")
        has_hub_id = isinstance(weights, Mapping) and "hub" in weights
        if paper.shape and not has_hub_id:
            return [f"model: the {role}'s sizes are not recorded; run it again"]
        return []
    odd = other_sizes(run, role, paper)
    if not odd:
        return []
    return [f"model: the {role} has other sizes than {paper.name} ({', '.join(odd)})"]


def other_sizes(run: StoredRun, role: str, paper: Model) -> list[str]:
    """The sizes in which a role's model differs from the paper's, "layers 30 instead of 32"; []
    where none is recorded."""
    sizes = run.manifest.shapes.get(role)
    if sizes is None:
        return []
    odd = []
    for key, size in paper.shape.items():
        if sizes.get(key) != size:
            odd.append(f"{key} {sizes.get(key)} instead of {size}")
    return odd


def other_owner(source: str, paper_model: Model) -> str | None:
    """The end of a sentence where a hub id is of another owner than the paper's; None for a folder
    or a bare name."""
    if source.startswith(("/", ".", "~")) or "/" not in source:
        return None
    hubs = _hubs(paper_model)
    if source.lower() in {hub_id.lower() for hub_id in hubs}:
        return None
    return f"{source}, the paper's is {hubs[0]}"


def _hubs(paper_model: Model) -> list[str]:
    """The ids of the hub by which a model is known, the newest first."""
    published = _published_model(paper_model.name)
    if not published:
        return [paper_model.source]
    return list(published["hubs"])


def _template_differences(
    run: StoredRun, role: str, known: Mapping[str, Any], name: str
) -> list[str]:
    """A sentence where the first prompt lacks the template or token ids of a model; else [].

    Args:
        run: The run.
        role: The role of the model.
        known: What is published of the paper's model.
        name: Its name.
    """
    sent = run.manifest.first_prompts.get(role)
    if sent is None or "opening" not in known:
        return []
    template = f"model: the {role}'s chat template is not that of {name}"
    text, ids = str(sent.text), list(sent.ids or ())
    if not text.startswith(known["opening"]):
        return [f"{template}: its first prompt begins {text[:60]!r}"]
    if ids and ids[: len(known["ids"])] != known["ids"]:
        tokenizer = f"model: the {role}'s tokenizer is not that of {name}"
        return [f"{tokenizer}: its first prompt has the ids {ids[:5]}"]
    return [f"{template}: {odd}" for odd in _odd_texts(text, run, known)]


def _odd_texts(text: str, run: StoredRun, known: Mapping[str, Any]) -> list[str]:
    """What stands in a first prompt that neither the template nor a prompt of the run has: up to
    the first placeholder of one of them, or after its last one.

    Args:
        text: The first prompt as it was sent.
        run: The run.
        known: What is published of the paper's model.
    """
    prompts = run.manifest.prompts
    user = text.rpartition(known["closing"])[0]
    heads, ends = [], []
    for key, prompt in prompts.items():
        if key.endswith(_SYSTEM):
            continue
        parts = _PLACE.split(prompt)
        system = prompts.get(key + _SYSTEM, known["system"]).strip()
        heads.append(_Head(f"{known['opening']}{system}{known['user']}", parts[0].lstrip()))
        ends.append(parts[-1].rstrip())
    # A turn that is still read, or a text that is scored: no prompt of the run need stand in it.
    if not user:
        if any(text.startswith(head.turn) or head.turn.startswith(text) for head in heads):
            return []
        return [_before_prompt(text, known)]
    if not any(text.startswith(head.turn + head.prompt) for head in heads):
        return [_before_prompt(text, known)]
    if not user.rstrip().endswith(tuple(ends)):
        return [f"it adds {user[-60:]!r} to a prompt"]
    return []


@dataclass(frozen=True)
class _Head:
    """How a first prompt begins: the template up to the turn of the user, and the prompt up to its
    first placeholder."""

    turn: str
    prompt: str


def _before_prompt(text: str, known: Mapping[str, Any]) -> str:
    before = text.removeprefix(known["opening"])[:80]
    return f"between its opening and a prompt of the run stands {before!r}"


def row_differences(run: StoredRun, dataset: str, split: str) -> Findings:
    """How the run's questions differ from the official split in what is published of it.

    Args:
        run: The run.
        dataset: The data set.
        split: The official split.
    """
    published: Mapping[str, Any] = _published_facts()["datasets"].get(f"{dataset} {split}") or {}
    return Findings(
        reasons=[
            *_question_reasons(run, dataset, published),
            *_document_reasons(run, dataset, split, published),
            *_kind_reasons(run, published),
        ],
        unchecked=_unchecked_rows(run),
    )


def _unchecked_rows(run: StoredRun) -> list[str]:
    """What nothing here proves of the rows."""
    config = run.config.dataset
    unchecked = []
    if config.data or not run.manifest.dataset.revision:
        unchecked.append("rows")
    if config.options.get("documents"):
        unchecked.append("retrieved documents")
    return unchecked


def _question_reasons(run: StoredRun, dataset: str, published: Mapping[str, Any]) -> list[str]:
    """Training questions, repeated ones, and ids of another form.

    Args:
        run: The run.
        dataset: The data set.
        published: What is published of its split.
    """
    # A repeated id has a suffix of the loader's ("x#2").
    ids = [str(record.question_id).partition("#")[0] for record in run.records]
    reasons = []
    trained = sum(_id_digest(question_id) in _training_ids() for question_id in ids)
    if trained:
        reasons.append(f"sample: {trained} of {len(ids)} questions are training rows")
    n_repeated = len(ids) - len({_question_key(record) for record in run.whole_records})
    if n_repeated:
        reasons.append(f"sample: {n_repeated} of {len(ids)} questions stand there twice")
    if "ids" in published:
        n_wrong = sum(not re.fullmatch(published["ids"], question_id) for question_id in ids)
        if n_wrong:
            reasons.append(
                f"sample: {n_wrong} of {len(ids)} ids are not of the form of {dataset}'s"
            )
    return reasons


def _id_digest(question_id: str) -> str:
    return hashlib.sha256(question_id.encode()).hexdigest()[:12]


def _question_key(record: StoredRecord) -> tuple[str, tuple[int, ...], str]:
    """Equal for rows with the same question, gold and sizes; with the id where no text was kept."""
    text = record.question
    if text is None:
        text = record.question_id
    sizes = tuple(record.document_characters or ())
    return text, sizes, str(record.gold_answers)


def _document_reasons(
    run: StoredRun, dataset: str, split: str, published: Mapping[str, Any]
) -> list[str]:
    """Other documents than those of the official split; arguments as above."""
    ids: set[str] = set()
    for record in run.records:
        ids.update(map(str, record.document_ids))
    if "documents" in published and len(ids) != published["documents"]:
        number = published["documents"]
        return [f"sample: {len(ids)} documents, the {split} split has {number}"]
    digest = hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()
    if "sha256" in published and digest != published["sha256"]:
        return [f"sample: the documents are not those of {dataset}'s {split} split"]
    return []


def _kind_reasons(run: StoredRun, published: Mapping[str, Any]) -> list[str]:
    """Other numbers of questions of a kind."""
    reasons = []
    for by in KINDS:
        if by not in published:
            continue
        here = Counter(kind_of_question(record, by) for record in run.whole_records)
        official = {str(name): count for name, count in published[by].items()}
        if set(here) == {None} or here == Counter(official):
            continue
        counts = [f"{name} {here[name]} (official {n})" for name, n in official.items()]
        reasons.append(f"sample: other numbers of each {by}: {', '.join(counts)}")
    return reasons
