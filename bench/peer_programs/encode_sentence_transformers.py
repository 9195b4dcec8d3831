"""Vectors of texts by sentence-transformers, in one call: MODEL TEXTS."""

import json
import sys

from sentence_transformers import SentenceTransformer

model, texts = sys.argv[1:]
network = SentenceTransformer(model, device="cpu", local_files_only=True)
with open(texts, encoding="utf-8") as file:
    passages = json.load(file)
vectors = network.encode(
    passages, batch_size=32, normalize_embeddings=True, show_progress_bar=False
)
assert len(vectors) == len(passages)
