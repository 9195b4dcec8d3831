"""LongRefiner (Jin et al. 2025): documents are structured, their nodes scored for a question, and
the best are read.

config.py     every choice, with the paper's default; the released code's rules are switches
outline.py    the XML-like outline a model writes of a document: written, and read back leniently
filling.py    where the shortened paragraphs of an outline stand in the original text
tree.py       the document's tree: abstract, sections, sub-sections, paragraphs; its leaves cover the text
prompts.py    the prompts of the three tasks, and the parsers of their replies
scores.py     scores of parts, upwards and downwards, by the paper or the released code
select.py     nodes up to a budget, by the paper or the released code
shown.py      what the reader is shown of the chosen nodes, and how many tokens that is
pages.py      a page's headings
method.py     the Method the registry names

    offline   document ──structuring──► tree                                                    (the index)
    online    question ──analysis──► weight R      question, paragraphs ──scoring model──► local score LS
              question, outline ──selection──► global score GS      LS + R * GS ──budget──► what is read

One base model has the role "refiner" in all three tasks, each with its own adapter if the config
names one.
"""

from methods.longrefiner.method import LongRefiner

__all__ = ["LongRefiner"]
