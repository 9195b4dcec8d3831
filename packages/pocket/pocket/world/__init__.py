"""The made-up world: facts, questions with one answer each, and the texts that state them."""
