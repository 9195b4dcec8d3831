"""A small made-up folder of NLTK's data."""

SYNSET = "00000000 00 n 02 doctor 0 physician 0 000 | one who heals  \n"
WORDNET = {
    "lexnames": "00\tnoun.person\t1\n",
    "data.noun": SYNSET,
    "index.noun": "doctor n 1 0 1 0 00000000  \nphysician n 1 0 1 0 00000000  \n",
}
EMPTY = [f"{kind}.{part}" for kind in ("index", "data") for part in ("verb", "adj", "adv")]
EMPTY += [f"{part}.exc" for part in ("noun", "verb", "adj", "adv")]
EMPTY += ["cntlist.rev", "index.sense"]
PUNKT = ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt")


def nltk_data(root):
    """A folder of NLTK's data: WordNet, and a splitter of sentences that knows no abbreviation."""
    wordnet = root / "corpora/wordnet"
    wordnet.mkdir(parents=True)
    for name in EMPTY:
        (wordnet / name).write_text("")
    for name, text in WORDNET.items():
        (wordnet / name).write_text(text)
    punkt = root / "tokenizers/punkt_tab/english"
    punkt.mkdir(parents=True)
    for name in PUNKT:
        (punkt / name).write_text("")
    return str(root)
