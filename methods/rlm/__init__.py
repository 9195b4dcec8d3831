"""Recursive Language Models: the model reads a text by code that it writes.

method.py    the conversation, and its questions to a model
repl.py      a Python session in a process of its own, with limits
worker.py    that process
"""

from methods.rlm.method import RLM

__all__ = ["RLM"]
