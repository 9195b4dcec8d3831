"""Data sets: questions, gold answers and their documents, every row checked.

load(DatasetConfig) ─► loading   a checked data set with its fingerprint: by the format's own loader, or row by row
                        check_rows   rows to questions and documents, every mistake with its place
                        formats  names to parsers and loaders, with their options
                        find_files   where the rows are: a file, a folder, an archive, package data, the hub
                        files    bytes to rows: .jsonl .json .parquet .gz .zip, each row with its place
                        musique, hotpotqa, twowiki     one raw row to a `Row`, or a reason to leave it out
                        qasper, longbench, quality     to a `Group`: a document and the questions about it
                        rows     `Row` to Example and Document
                        retrieved, open_rows, row_documents   questions and the documents retrieved for them
                        folder   pages and questions that someone brings: folder_pages, folder_questions
                        narrativeqa, narrativeqa_stories   whole books: only those with a question are read
                        pocket   no rows to find: made up by the package pocket

>>> data = load(config, limit=20)
>>> data.examples[0].question.text
"""

from harness.datasets.base import Dataset
from harness.datasets.loading import load

__all__ = ["Dataset", "load"]
