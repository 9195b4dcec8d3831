"""LongRefiner's rivals (LongRefiner, table 2): a document cut into segments, the best of which are read up to a budget.

SentenceSegments   six sentences a segment, as for the retrieval rows (docs/methods/longrefiner.md#longrefiner-rivals)
JinaSegments       paragraphs, lines and sentences packed up to 500 tokens: an offline stand-in for a web service
MetaChunking       cuts where a model finds the next sentence surprising again (arXiv 2410.12788)
method.py          what they share: documents cut apart, segments of all of them ranked together, titles above them
cutting.py         the rules of the first two        perplexity.py  the rule of the third
"""

from methods.segmenting.method import JinaSegments, MetaChunking, SentenceSegments

__all__ = ["JinaSegments", "MetaChunking", "SentenceSegments"]
