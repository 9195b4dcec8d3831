"""The tiny random Llama of tests/llm."""

from tests.llm.conftest import tiny_folder

__all__ = ["tiny_folder"]
