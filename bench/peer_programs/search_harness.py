"""One question after another in an index of `harness index-corpus`: FOLDER QUERIES."""

import json
import sys
from pathlib import Path

from harness.cost.meter import Meter
from harness.retrieval.search_index import SearchIndex

folder, queries = sys.argv[1:]
index = SearchIndex.open(Path(folder))
meter = Meter("search")
with open(queries, encoding="utf-8") as file:
    for query in json.load(file):
        index.search(query, 5, meter)
