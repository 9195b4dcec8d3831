"""A saved tokenizer without transformers, and so without torch: what laying out prompts needs of
one, in 0.1 seconds.

    tokenizer = FastTokenizer(folder)
    Teacher(tokenizer)                        the same tokens as with transformers' AutoTokenizer

It reads tokenizer.json, tokenizer_config.json and chat_template.jinja, and none of the older forms.
"""

import json
from pathlib import Path

from tokenizers import Tokenizer

from harness.errors import CannotRun
from harness.llm.tokenizer_files import chat_template


class FastTokenizer:
    """Replaces a fast tokenizer of transformers.

    Attributes:
        backend_tokenizer: The tokenizer of the package tokenizers.
        chat_template: The text of the chat template; None where the folder has none that can be
            read.
        special_tokens_map: "bos_token" -> "<s>".
        unk_token_id: The id of the token for what the vocabulary lacks; None for none.
        bos_token_id: The id of the token that begins a text; None for none.
    """

    is_fast = True
    all_special_ids: tuple[int, ...] = ()  # those that tokenizer.json flags are found there

    def __init__(self, folder: Path) -> None:
        """Read the files in a tokenizer's folder. Raises CannotRun for a tokenizer.json that is
        missing or cannot be read."""
        try:
            self.backend_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as e:  # tokenizers raises plain Exception for a file that is not there, or none of its own
            raise CannotRun(
                f"the tokenizer in {folder} cannot be read: {str(e).splitlines()[0]}"
            ) from e
        self.chat_template, self.special_tokens_map = chat_template(folder)
        model = json.loads(self.backend_tokenizer.to_str())["model"]
        self.unk_token_id = model.get("unk_id")
        if model.get("unk_token") is not None:
            self.unk_token_id = self._id(model["unk_token"])
        self.bos_token_id = self._id(self.special_tokens_map.get("bos_token", ""))

    def _id(self, token: str) -> int | None:
        """The id of a token; None where the vocabulary lacks it."""
        return self.backend_tokenizer.token_to_id(token)

    def __call__(self, text: str) -> dict[str, list[int]]:
        """Encode `text` as {"input_ids": ids}, with the tokens that the tokenizer adds by
        itself."""
        return {"input_ids": list(self.backend_tokenizer.encode(text).ids)}
