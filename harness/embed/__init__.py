"""Sentence encoders and rerankers."""
