"""The key of an index in the cache: everything that changes the index of a document."""

from typing import Any

from harness.engine.plan import Plan
from harness.storage.index_cache import document_digest
from harness.storage.own_code_hash import versions
from harness.types import Document, Question


def index_key(plan: Plan, document: Document, question: Question | None) -> dict[str, Any]:
    """The key of the index of `document`; question: for an index of scope "question" only."""
    method = plan.method
    params: dict[str, Any] = method.config.model_dump(mode="json", exclude={"prompts"})  # they stand apart
    if method.index_fields is not None:
        params = {name: params[name] for name in method.index_fields}
    outside = {"code": plan.code, "packages": versions(method.index_packages())}  # inputs outside the configuration
    key: dict[str, Any] = {
        "document": document_digest(document),
        "method": plan.config.method.implementation,
        "version": method.index_version,
        "params": params,
        "prompts": method.prompts(),
        "models": {role: plan.facts[role] for role in method.index_roles},
        "seed": plan.config.seed,
        **{name: found for name, found in outside.items() if found},
    }
    if question is not None:
        key["question"] = {
            "text": question.text,
            "options": question.options,
            "task": plan.task.model_dump(exclude_defaults=True),
        }
    return key
