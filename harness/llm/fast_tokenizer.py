"""A saved tokenizer without transformers, and so without torch: what laying out prompts needs of one, in 0.1 seconds.

    tokenizer = FastTokenizer(folder)
    Teacher(tokenizer)                        the same tokens as with transformers' AutoTokenizer

For models of this project alone: it reads tokenizer.json, tokenizer_config.json and chat_template.jinja as
transformers writes them, and knows nothing of the many forms that other models' tokenizers have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from harness.errors import CannotRun
from harness.storage.received import read_object, read_plain


class FastTokenizer:
    """Replaces a fast tokenizer of transformers. Raises CannotRun where a file is missing or cannot be read."""

    is_fast = True

    def __init__(self, folder: Path) -> None:
        try:
            self.backend_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            settings = read_object(folder / "tokenizer_config.json")
            self._template = read_plain(folder / "chat_template.jinja").decode()
        except Exception as e:  # tokenizers raises plain Exception for a file that is not there
            raise CannotRun(f"the tokenizer in {folder} cannot be read: {e}") from e
        self._named = {k: v for k, v in settings.items() if k.endswith("_token") and isinstance(v, str)}
        names = [*self._named.values(), *settings.get("extra_special_tokens", [])]
        self.all_special_ids = [self.backend_tokenizer.token_to_id(name) for name in dict.fromkeys(names)]
        self.unk_token_id, self.bos_token_id = self._id("unk_token"), self._id("bos_token")

    def _id(self, role: str) -> int | None:
        name = self._named.get(role)
        return None if name is None else self.backend_tokenizer.token_to_id(name)

    def __call__(self, text: str) -> dict[str, list[int]]:
        """{"input_ids": ids} with the tokens that the tokenizer adds by itself."""
        return {"input_ids": list(self.backend_tokenizer.encode(text).ids)}

    def apply_chat_template(self, messages: list[dict[str, str]], *, tokenize: bool, **variables: Any) -> str:
        """The messages as the template lays them out. Raises ValueError for tokenize=True."""
        if tokenize:
            raise ValueError("a fast tokenizer renders a template as text only")
        return render_template(self._template, self._named, messages, **variables)


def render_template(template: str, named: dict[str, Any], messages: list[dict[str, str]], **variables: Any) -> str:
    """Messages as a chat template lays them out. named: the tokens that it may name. Raises what jinja2 raises."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(messages=messages, **named, **variables)
