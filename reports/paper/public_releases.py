"""What a run's models and rows are by their content, beside what is publicly known of the paper's (published.yaml).

A name proves nothing: a folder may be called like the paper's model. So sizes, the tokens and the chat template of the
first prompt, and the hub's commit are compared; a `unverified` names what could not be.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import yaml

from harness.datasets.question_kinds import KINDS
from harness.storage.run_folder import StoredRun
from reports.by_kind import kind
from reports.paper.preset import Model, last_part


@dataclass
class Found:
    """reasons: sentences that forbid a verdict; unverified: "weights", "rows": what nothing here proves."""

    reasons: list[str] = field(default_factory=list)
    unverified: list[str] = field(default_factory=list)

    def add(self, other: "Found") -> None:
        """Append what was found of another part of the run."""
        self.reasons += other.reasons
        self.unverified += other.unverified


@cache
def _published_facts() -> dict[str, Any]:
    facts: dict[str, Any] = yaml.safe_load((resources.files("reports.paper") / "published.yaml").read_text("utf-8"))
    return facts


@cache
def _training_ids() -> frozenset[str]:
    """The first 12 hex digits of the sha256 of each training question's id."""
    return frozenset((resources.files("reports.paper") / "training_ids.txt").read_text("utf-8").split())


def model_differences(run: StoredRun, role: str, wanted: Model) -> Found:
    """How the content of a role's model or encoder differs from the paper's."""
    told = (run.manifest.get("models") or {}).get(role) or {}
    known = _published_facts()["models"].get(wanted.name) or {"hubs": [wanted.source]}
    weights = told.get("weights")
    found = Found()
    if isinstance(weights, Mapping) and "hub" in weights:
        hub, paper = str(weights["hub"]), str(known["hubs"][0])
        if hub.lower() not in {str(one).lower() for one in known["hubs"]}:
            same = last_part(hub).lower() == last_part(paper).lower()  # of another owner
            own, theirs = (hub, paper) if same else (last_part(hub), last_part(paper))
            return Found([f"model: the {role} is {own}, the paper's is {theirs}"])
    elif weights is None:
        return Found([f"model: what the {role}'s weights are is not recorded"])
    elif isinstance(weights, Mapping) and "files" not in weights:
        return Found([f"model: the {role}'s weights come from a quantised file, the paper's are {wanted.name}"])
    else:
        found.unverified.append("weights")
    found.reasons += _size_differences(run, role, wanted, proven=not found.unverified)
    found.reasons += _template_differences(run, role, known, wanted.name)
    return found


def _size_differences(run: StoredRun, role: str, wanted: Model, *, proven: bool) -> list[str]:
    """Sizes of a role's model that are not the paper's, as one sentence; proven: its weights are the paper's."""
    own = (run.manifest.get("shapes") or {}).get(role)
    if own is None:
        return [] if proven or not wanted.shape else [f"model: the {role}'s sizes are not recorded; run it again"]
    odd = [f"{key} {own.get(key)} instead of {size}" for key, size in wanted.shape.items() if own.get(key) != size]
    return [f"model: the {role} has other sizes than {wanted.name} ({', '.join(odd)})"] if odd else []


def _template_differences(run: StoredRun, role: str, known: Mapping[str, Any], name: str) -> list[str]:
    """A sentence where the first prompt lacks the template or token ids in `known`, facts on model `name`; else []."""
    sent = (run.manifest.get("first_prompts") or {}).get(role)
    if sent is None or "opening" not in known:
        return []
    text, ids = str(sent.get("text")), list(sent.get("ids") or ())
    if not text.startswith(known["opening"]):
        return [f"model: the {role}'s chat template is not that of {name}: its first prompt begins {text[:60]!r}"]
    if ids and ids[: len(known["ids"])] != known["ids"]:
        return [f"model: the {role}'s tokenizer is not that of {name}: its first prompt has the ids {ids[:5]}"]
    user, _, behind = text.rpartition(known["closing"])
    if behind and not user:  # a turn that is still open, as of a search that goes on
        return []
    ends = {prompt[prompt.rfind("}") + 1 :].rstrip() for prompt in (run.manifest.get("prompts") or {}).values()}
    if not any(user.rstrip().endswith(end) for end in ends):
        return [f"model: the {role}'s chat template is not that of {name}: it adds {user[-60:]!r} to a prompt"]
    return []


def row_differences(run: StoredRun, dataset: str, split: str) -> Found:
    """How the run's questions differ from the official `split` in what is published of it: ids, kinds, documents."""
    known: Mapping[str, Any] = _published_facts()["datasets"].get(f"{dataset} {split}") or {}
    told = run.manifest.get("dataset") or {}
    found = Found(unverified=[] if told.get("revision") and not run.config["dataset"].get("data") else ["rows"])
    # A repeated id has a suffix of the loader's ("x#2").
    ids = [str(record["question_id"]).partition("#")[0] for record in run.records]
    if trained := sum(hashlib.sha256(key.encode()).hexdigest()[:12] in _training_ids() for key in ids):
        found.reasons.append(f"sample: {trained} of {len(ids)} questions are training rows")
    if twice := len(run.records) - len({_content_key(record) for record in run.whole_records}):
        found.reasons.append(f"sample: {twice} of {len(ids)} questions stand there twice")
    if "ids" in known and (odd := sum(not re.fullmatch(known["ids"], key) for key in ids)):
        found.reasons.append(f"sample: {odd} of {len(ids)} ids are not of the form of {dataset}'s")
    documents = sorted({str(key) for record in run.records for key in record["document_ids"]})
    if "documents" in known and len(documents) != known["documents"]:
        found.reasons.append(f"sample: {len(documents)} documents, the {split} split has {known['documents']}")
    elif "sha256" in known and hashlib.sha256("\n".join(documents).encode()).hexdigest() != known["sha256"]:
        found.reasons.append(f"sample: the documents are not those of {dataset}'s {split} split")
    for by in KINDS:
        if by in known and (odd_kinds := _kind_differences(run.whole_records, by, known[by])):
            found.reasons.append(f"sample: {odd_kinds}")
    return found


def _content_key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """A key that is equal for rows with the same question, gold and sizes; with the id where no text was kept."""
    text = record.get("question")
    own = record["question_id"] if text is None else text
    return own, tuple(record.get("document_characters") or ()), str((record.get("gold") or {}).get("answers"))


def _kind_differences(records: Sequence[Mapping[str, Any]], by: str, official: Mapping[Any, int]) -> str:
    """The shares of kinds beside the official ones; "" where they are the same, or the run kept no texts."""
    own = Counter(kind(record, by) for record in records)
    if set(own) == {None} or own == Counter({str(name): count for name, count in official.items()}):
        return ""
    counts = ", ".join(f"{name} {own[str(name)]} (official {count})" for name, count in official.items())
    return f"other numbers of each {by}: {counts}"
