"""Prompt compression: tokens that tell a small model little are left out before the reader sees the
text.

config.py      every choice, with the released code's default
contexts.py    the contexts of a document that are ranked
surprise.py    a text as tokens that can be kept or dropped; -log p of each in a context, through the compressor
lingua.py      LLMLingua, LongLLMLingua
library.py     the package llmlingua, which chooses contexts and tokens, on our sessions
selective.py   Selective-Context: the self-information of each sentence's tokens
classifier.py  a token classifier of transformers
lingua2.py     LLMLingua-2 over it
show.py        the compressed text read, and what of it the record calls shown; what a compressor is to have learnt

The question stands once in the request, in the shared reading prompt: nothing here appends it to
the text, as the released code does. Source: docs/methods/compression.md#compression.
"""

from methods.compression.lingua import LLMLingua, LongLLMLingua
from methods.compression.lingua2 import LLMLingua2
from methods.compression.selective import SelectiveContext

__all__ = ["LLMLingua", "LLMLingua2", "LongLLMLingua", "SelectiveContext"]
