"""A tree of made-up words, without pytest: what the tests of RAPTOR build here and in processes of
their own.

python -m tests.methods.raptor_tree REDUCTION        prints its fingerprint, its highest level and the nodes of level 2
"""

import hashlib
import json
import sys

import numpy as np

from harness.llm.scripted import Rule
from harness.types import Document
from methods.raptor import Raptor
from methods.raptor.config import RaptorConfig
from tests.methods.conftest import FakeTools


class Vectors:
    """An encoder that gives every text a vector of its own, by its letters alone."""

    name, identity = "vectors", {}

    def encode(self, texts, kind):
        found = [np.bincount([ord(c) % 61 for c in t], minlength=61) for t in texts]
        rows = np.array(found, dtype=np.float32).reshape(len(texts), 61)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)

    def similarity(self, query, passages):
        return passages @ query


def text_of(count):
    """`count` sentences of three words."""
    words = [f"{chr(97 + i % 26)}{chr(97 + i // 7 % 26)}{i}" for i in range(count)]
    return " ".join(f"{w} {w[::-1]} {w * 2}." for w in words)


def index_of(text, replies=None, **params):
    """The index of a text, a chunk a sentence, and the tools it was built with."""
    tools = FakeTools(replies or [Rule(reply="a  summary\nof it")], similarity=Vectors())
    config = RaptorConfig(**{"chunk_tokens": 3, "reduction": "pca", "components": 12, **params})
    return Raptor(config).index(Document("d", text), tools), tools


def fingerprint(index):
    """sha256 of texts, levels, edges and embeddings."""
    parts = [json.dumps([index["text"], index["level"], index["span"]]).encode()]
    parts += [index[name].tobytes() for name in ("higher", "lower", "weight", "embeddings")]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def main():
    made, _ = index_of(text_of(40), reduction=sys.argv[1], layers=2)
    print(fingerprint(made), max(made["level"]), made["level"].count(2))


if __name__ == "__main__":
    main()
