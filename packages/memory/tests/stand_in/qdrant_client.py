"""Stands for the package qdrant_client: what harness_memory/store.py calls of it."""

from dataclasses import dataclass
from types import SimpleNamespace


@dataclass
class Point:
    """A stored vector."""

    id: str
    payload: dict
    vector: list


class QdrantClient:
    """A store in memory."""

    def __init__(self, location):
        assert location == ":memory:"
        self.points = []

    def count(self, _collection):
        return SimpleNamespace(count=len(self.points))

    def scroll(self, _collection, limit, with_vectors):
        assert with_vectors
        return self.points[:limit], None
