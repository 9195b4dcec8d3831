"""The embedded reranker: its weights, training and exam."""
