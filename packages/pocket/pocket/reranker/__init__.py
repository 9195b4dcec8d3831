"""The embedded reranker: its weights and training."""
