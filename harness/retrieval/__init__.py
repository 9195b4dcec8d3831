"""Documents for open questions: passages of a corpus ranked by BM25 or an encoder, whole documents
by best passage."""
