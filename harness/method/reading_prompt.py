"""The shared request to read texts and answer a question, which methods without turns of their own
send (methods/reading.py) and made-up examples of a data set show (harness/datasets/ruler.py).

Its layout follows LongBench (docs/methods/shared.md#reading-prompt: instruction, context,
instruction again, question); the words are this project's, so no byte parity with LongBench is
claimed. The answer instruction is the data set's.
"""

from harness.prompts import Prompt

ANSWER = Prompt(
    "answer",
    "Read the text below, then answer a question about it. {instruction}\n\nText:\n{text}\n\nThe "
    "text ends here. "
    "{instruction}\n\nQuestion: {question}{options}\nAnswer:",
    answers=True,
)
