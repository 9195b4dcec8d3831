"""Stands for the package mem0ai: one request for memories a text, as its prompt is built; equal ones
are left out; a search by cosine. Its version 2.2.1 was run with the same rows (docs/methods/memory.md)."""

import json
import os
import uuid

import numpy as np
from qdrant_client import Point

SYSTEM = "# ROLE\n\nYou extract memories."
assert os.environ["MEM0_TELEMETRY"] == "False"  # as it reads it when it is imported


class _Vectors:
    def __init__(self, client):
        self.client = client

    def insert(self, vectors, ids, payloads):
        for vector, name, payload in zip(vectors, ids, payloads, strict=True):
            self.client.points.append(Point(name, payload, vector))

    def nearest(self, query, k):
        found = []
        for point in self.client.points:
            vector = np.array(point.vector)
            score = vector @ query / (np.linalg.norm(vector) * np.linalg.norm(query))
            found.append((float(score), point))
        found.sort(key=lambda pair: -pair[0])
        return found[:k]


class Memory:
    """A memory."""

    @classmethod
    def from_config(cls, config):
        memory = cls()
        store = config["vector_store"]["config"]
        assert store["embedding_model_dims"] > 0
        memory.vector_store = _Vectors(store["client"])
        memory.llm = memory.embedding_model = None
        return memory

    def add(self, messages, *, user_id):
        (message,) = messages
        text = f"user: {message['content']}\n"
        near = self.vector_store.nearest(np.array(self.embedding_model.embed(text, "search")), 10)
        known = [point.payload["data"] for _, point in near]
        user = f"## Existing Memories\n{json.dumps(known)}\n\n## New Messages\n{text}\n# Output:"
        asked = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}]
        try:
            reply = self.llm.generate_response(
                messages=asked, response_format={"type": "json_object"}
            )
        except Exception as error:
            raise RuntimeError(f"LLM extraction failed: {error}") from error
        try:
            texts = [one["text"] for one in json.loads(reply).get("memory", [])]
        except ValueError:
            texts = []
        texts = [one for one in texts if one not in known]
        ids = [str(uuid.uuid4()) for _ in texts]
        vectors = self.embedding_model.embed_batch(texts, "add") if texts else []
        payloads = [{"data": one, "user_id": user_id} for one in texts]
        self.vector_store.insert(vectors=vectors, ids=ids, payloads=payloads)
        found = zip(ids, texts, strict=True)
        return {"results": [{"id": name, "memory": one, "event": "ADD"} for name, one in found]}

    def search(self, query, *, filters, top_k):
        assert filters == {"user_id": "document"}
        found = self.vector_store.nearest(
            np.array(self.embedding_model.embed(query, "search")), top_k
        )
        return {
            "results": [
                {"id": point.id, "memory": point.payload["data"], "score": score}
                for score, point in found
            ]
        }
