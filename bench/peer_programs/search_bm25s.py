"""One question after another in an index that bm25s saved, mapped into memory: FOLDER QUERIES."""

import json
import sys

import bm25s

folder, queries = sys.argv[1:]
index = bm25s.BM25.load(folder, mmap=True, load_corpus=True)
with open(queries, encoding="utf-8") as file:
    for query in json.load(file):
        tokens = bm25s.tokenize([query], stopwords="en", show_progress=False)
        index.retrieve(tokens, k=5, show_progress=False)
