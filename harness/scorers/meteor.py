"""METEOR as Hugging Face `evaluate` computes it, by NLTK: unigrams that match by form, by stem or
as synonyms in WordNet (Banerjee and Lavie 2005; weights alpha .9, beta 3, gamma .5).

    meteor("Ada built a mill", ["Ada built the mill"])       -> 0.74

The best of the references counts. NLTK brings the code, not its data: WordNet 3.0 and the splitter
of sentences (Punkt), which its downloader puts into a folder that NLTK_DATA may name.
"""

from collections.abc import Sequence

from harness.errors import CannotRun
from harness.scorers.base import need, published

NO_DATA = (
    "METEOR needs WordNet and NLTK's splitter of sentences; run: python -m nltk.downloader wordnet "
    "punkt_tab"
)


scorer = published("huggingface/evaluate metrics/meteor")


@scorer("hf_meteor.meteor", "unigrams that match by form, stem or synonym", packages=("nltk",))
def meteor(prediction: str, references: Sequence[str]) -> float:
    """The highest METEOR of a reply over the references, by NLTK with its default parameters.

    Raises CannotRun where NLTK's WordNet or its splitter of sentences is not on this machine.
    """
    split_words = need("nltk.tokenize").word_tokenize
    score = need("nltk.translate.meteor_score").meteor_score
    try:
        words = split_words(prediction)
        gold = [split_words(reference) for reference in references]
        return float(score(gold, words, alpha=0.9, beta=3, gamma=0.5))
    except LookupError:
        raise CannotRun(NO_DATA) from None
