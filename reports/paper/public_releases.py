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
from harness.storage.run_folder import StoredRun
from reports.by_kind import kind_of_question
from reports.paper.preset import Model, last_part

_PLACE = re.compile(r"\{[a-z_]+\}")  # as harness.prompts
_SYSTEM = ", system"  # how the manifest names the system turn of a prompt


@dataclass
class Findings:
    """reasons: sentences that forbid a verdict; unchecked: "weights", "rows": what nothing here
    proves; marks: sentences beside a verdict.
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


@cache
def _training_ids() -> frozenset[str]:
    """The first 12 hex digits of the sha256 of each training question's id."""
    text = (resources.files("reports.paper") / "training_ids.txt").read_text("utf-8")
    return frozenset(text.split())


def model_differences(run: StoredRun, role: str, paper: Model) -> Findings:
    """How the content of a role's model or encoder differs from the paper's."""
    recorded = (run.manifest.get("models") or {}).get(role) or {}
    weights = recorded.get("weights")
    result = Findings(
        unchecked=["weights"]
    )  # of the hub, too: a run says itself which commit it had
    if quantised := recorded.get("quantised"):
        return Findings(
            [
                (
                    f"model: the {role}'s weights are quantised ({quantised}), the paper's are "
                    f"{paper.name}"
                )
            ]
        )
    if isinstance(weights, Mapping) and "hub" in weights:
        hub = str(weights["hub"])
        if last_part(hub).lower() not in {last_part(hub_id).lower() for hub_id in _hubs(paper)}:
            return Findings([f"model: the {role} is {last_part(hub)}, the paper's is {paper.name}"])
        if other := other_owner(hub, paper):
            return Findings([f"model: the {role} is {other}"])
    elif "served" not in recorded and weights is None:
        return Findings([f"model: what the {role}'s weights are is not recorded"])
    elif "served" not in recorded and isinstance(weights, Mapping) and "files" not in weights:
        return Findings(
            [
                (
                    f"model: the {role}'s weights come from a quantised file, the paper's are "
                    f"{paper.name}"
                )
            ]
        )
    sizes = (run.manifest.get("shapes") or {}).get(role)
    from_hub = isinstance(weights, Mapping) and "hub" in weights
    if sizes is None and paper.shape and not from_hub:
        result.reasons.append(f"model: the {role}'s sizes are not recorded; run it again")
    if odd := other_sizes(run, role, paper):
        result.reasons.append(
            f"model: the {role} has other sizes than {paper.name} ({', '.join(odd)})"
        )
    published = _published_facts()["models"].get(paper.name) or {}
    result.reasons += _template_differences(run, role, published, paper.name)
    if "opening" in published and role not in (run.manifest.get("first_prompts") or {}):
        result.unchecked.append("chat template")
    return result


def other_sizes(run: StoredRun, role: str, paper: Model) -> list[str]:
    """The sizes in which a role's model differs from the paper's, "layers 30 instead of 32"; []
    where none is recorded."""
    sizes = (run.manifest.get("shapes") or {}).get(role)
    if sizes is None:
        return []
    return [
        f"{key} {sizes.get(key)} instead of {size}"
        for key, size in paper.shape.items()
        if sizes.get(key) != size
    ]


def other_owner(source: str, paper_model: Model) -> str | None:
    """The end of a sentence where a hub id is of another owner than the paper's; None for a folder
    or a bare name."""
    hubs = _hubs(paper_model)
    if (
        source.startswith(("/", ".", "~"))
        or "/" not in source
        or source.lower() in {hub_id.lower() for hub_id in hubs}
    ):
        return None
    return f"{source}, the paper's is {hubs[0]}"


def _hubs(paper_model: Model) -> list[str]:
    """The ids of the hub by which a model is known, the newest first."""
    return list(
        (_published_facts()["models"].get(paper_model.name) or {"hubs": [paper_model.source]})[
            "hubs"
        ]
    )


def _template_differences(
    run: StoredRun, role: str, known: Mapping[str, Any], name: str
) -> list[str]:
    """A sentence where the first prompt lacks the template or token ids in `known`, facts on model
    `name`; else [].

    Up to the first placeholder of one of the run's prompts, and behind its last one, nothing else
    may stand.
    """
    sent = (run.manifest.get("first_prompts") or {}).get(role)
    if sent is None or "opening" not in known:
        return []
    text, ids = str(sent.get("text")), list(sent.get("ids") or ())
    if not text.startswith(known["opening"]):
        return [
            (
                f"model: the {role}'s chat template is not that of {name}: its first prompt begins "
                f"{text[:60]!r}"
            )
        ]
    if ids and ids[: len(known["ids"])] != known["ids"]:
        return [
            (
                f"model: the {role}'s tokenizer is not that of {name}: its first prompt has the ids "
                f"{ids[:5]}"
            )
        ]
    prompts = run.manifest.get("prompts") or {}
    texts = {
        key: _PLACE.split(prompt) for key, prompt in prompts.items() if not key.endswith(_SYSTEM)
    }
    user = text.rpartition(known["closing"])[0]
    is_open = (
        not user
    )  # a turn that is still read, or a text that is scored: no prompt of the run need stand in it
    heads = {
        f"{known['opening']}{prompts.get(key + _SYSTEM, known['system']).strip()}{known['user']}"
        f"{'' if is_open else parts[0].lstrip()}"
        for key, parts in texts.items()
    }
    if not any(text.startswith(head) or (is_open and head.startswith(text)) for head in heads):
        before = text.removeprefix(known["opening"])[:80]
        problem = f"between its opening and a prompt of the run stands {before!r}"
        return [f"model: the {role}'s chat template is not that of {name}: {problem}"]
    if not is_open and not any(
        user.rstrip().endswith(parts[-1].rstrip()) for parts in texts.values()
    ):
        return [
            (
                f"model: the {role}'s chat template is not that of {name}: it adds {user[-60:]!r} to a "
                "prompt"
            )
        ]
    return []


def row_differences(run: StoredRun, dataset: str, split: str) -> Findings:
    """How the run's questions differ from the official `split` in what is published of it: ids,
    kinds, documents."""
    published: Mapping[str, Any] = _published_facts()["datasets"].get(f"{dataset} {split}") or {}
    config = run.config["dataset"]
    revision = (run.manifest.get("dataset") or {}).get("revision")
    result = Findings(unchecked=[] if revision and not config.get("data") else ["rows"])
    if (config.get("options") or {}).get("documents"):
        result.unchecked.append("retrieved documents")
    # A repeated id has a suffix of the loader's ("x#2").
    ids = [str(record.question_id).partition("#")[0] for record in run.records]
    if trained := sum(
        hashlib.sha256(key.encode()).hexdigest()[:12] in _training_ids() for key in ids
    ):
        result.reasons.append(f"sample: {trained} of {len(ids)} questions are training rows")
    keys = (
        set()
    )  # equal for rows with the same question, gold and sizes; with the id where no text was kept
    for record in run.whole_records:
        text = record.question
        sizes = tuple(record.document_characters or ())
        gold = str(record.gold_answers)
        keys.add((record.question_id if text is None else text, sizes, gold))
    if n_repeated := len(run.records) - len(keys):
        result.reasons.append(f"sample: {n_repeated} of {len(ids)} questions stand there twice")
    if "ids" in published and (
        n_wrong := sum(not re.fullmatch(published["ids"], key) for key in ids)
    ):
        result.reasons.append(
            f"sample: {n_wrong} of {len(ids)} ids are not of the form of {dataset}'s"
        )
    documents = sorted({str(key) for record in run.records for key in record.document_ids})
    digest = hashlib.sha256("\n".join(documents).encode()).hexdigest()
    if "documents" in published and len(documents) != published["documents"]:
        result.reasons.append(
            f"sample: {len(documents)} documents, the {split} split has {published['documents']}"
        )
    elif "sha256" in published and digest != published["sha256"]:
        result.reasons.append(f"sample: the documents are not those of {dataset}'s {split} split")
    for by in (by for by in KINDS if by in published):
        here = Counter(kind_of_question(record, by) for record in run.whole_records)
        official = Counter({str(name): count for name, count in published[by].items()})
        if set(here) != {None} and here != official:
            counts = ", ".join(
                f"{name} {here[name]} (official {n})" for name, n in official.items()
            )
            result.reasons.append(f"sample: other numbers of each {by}: {counts}")
    return result
