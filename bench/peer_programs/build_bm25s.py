"""bm25s's own index of a corpus of JSON lines, with its texts: CORPUS FOLDER."""

import json
import sys

import bm25s

corpus, folder = sys.argv[1:]
texts: list[str] = []
with open(corpus, encoding="utf-8") as file:
    for line in file:
        row = json.loads(line)
        texts.append(f"{row['title']}\n{row['text']}")
tokens = bm25s.tokenize(texts, stopwords="en", show_progress=False)
index = bm25s.BM25()
index.index(tokens, show_progress=False)
index.save(folder, corpus=texts, show_progress=False)
