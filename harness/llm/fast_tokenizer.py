"""A saved tokenizer without transformers, and so without torch: what laying out prompts needs of one, in 0.1 seconds.

    tokenizer = FastTokenizer(folder)
    Teacher(tokenizer)                        the same tokens as with transformers' AutoTokenizer

It reads tokenizer.json, tokenizer_config.json and chat_template.jinja, and none of the older forms.
"""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from harness.errors import CannotRun
from harness.storage.untrusted import read_object, read_plain


class FastTokenizer:
    """Replaces a fast tokenizer of transformers. chat_template: None where the folder has none that can be read.

    Raises CannotRun for a tokenizer.json that is missing or cannot be read.
    """

    is_fast = True
    all_special_ids: tuple[int, ...] = ()  # those that tokenizer.json flags are found there

    def __init__(self, folder: Path) -> None:
        try:
            self.backend_tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception as e:  # tokenizers raises plain Exception for a file that is not there, or none of its own
            raise CannotRun(f"the tokenizer in {folder} cannot be read: {str(e).splitlines()[0]}") from e
        self.chat_template, self.named_tokens = chat_template(folder)
        model = json.loads(self.backend_tokenizer.to_str())["model"]
        self.unk_token_id = model.get("unk_id") if model.get("unk_token") is None else self._id(model["unk_token"])
        self.bos_token_id = self._id(self.named_tokens.get("bos_token", ""))

    def _id(self, token: str) -> int | None:
        return self.backend_tokenizer.token_to_id(token)

    def __call__(self, text: str) -> dict[str, list[int]]:
        """Encode `text` as {"input_ids": ids}, with the tokens that the tokenizer adds by itself."""
        return {"input_ids": list(self.backend_tokenizer.encode(text).ids)}

    def apply_chat_template(self, messages: list[dict[str, str]], **variables: Any) -> str:
        """The messages as text. Raises what jinja2 raises."""
        rendered: str = compiled(self.chat_template or "").render(messages=messages, **self.named_tokens, **variables)
        return rendered


def chat_template(folder: Path) -> tuple[str | None, dict[str, str]]:
    """The chat template, None where the folder has none that can be read; tokens it may name: "bos_token" -> "<s>"."""
    try:
        path = folder / "tokenizer_config.json"
        settings = read_object(path) if path.exists() else {}
        jinja = folder / "chat_template.jinja"
        text = read_plain(jinja).decode() if jinja.exists() else settings.get("chat_template")
    except (OSError, ValueError):
        return None, {}
    named = {k: v["content"] if isinstance(v, dict) else v for k, v in settings.items() if k.endswith("_token")}
    return text if isinstance(text, str) else None, {k: v for k, v in named.items() if isinstance(v, str)}


def compiled(template: str) -> Any:
    """A chat template in Jinja's sandbox. Raises jinja2.TemplateError."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    extensions = ["jinja2.ext.loopcontrols"]
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    return environment.from_string(template)
