"""Synthetic chat tokenizers: what their vocabularies are made of, and how they know the markers of
turns."""

from dataclasses import dataclass
from threading import Lock

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from harness.config.schema import ModelConfig
from harness.llm.endpoint_tokens import Tokens
from harness.llm.hf_session import HFModel
from harness.llm.kv import KVPool
from harness.llm.tokenized_model import NetworkEnds


@dataclass(frozen=True)
class Format:
    """A chat format: the text before each role's content, behind it, and the strings that mark
    turns."""

    user: str
    end_user: str
    reply: str
    end_reply: str
    markers: tuple[str, ...]
    bos: str = ""

    @property
    def template(self):
        user, reply = (f"{a}{{{{ m['content'] }}}}{b}" for a, b in self._pairs())
        return (
            f"{self.bos}{{% for m in messages %}}{{% if m['role'] == 'user' %}}{user}{{% else %}}{reply}{{% endif %}}"
            f"{{% endfor %}}{{% if add_generation_prompt %}}{self.reply}{{% endif %}}"
        ).replace("\n", "{{ '\\n' }}")

    def _pairs(self):
        return [(self.user, self.end_user), (self.reply, self.end_reply)]


def _roles(shape, end, markers, names, bos=""):
    user, reply = (shape.replace("ROLE", name) for name in names)
    return Format(user, end, reply, end, markers, bos)


WHO = ("user", "assistant")
HEADERS = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
FORMATS = {
    "chatml": _roles("<|im_start|>ROLE\n", "<|im_end|>\n", ("<|im_start|>", "<|im_end|>"), WHO),
    "llama3": _roles(
        "<|start_header_id|>ROLE<|end_header_id|>\n\n",
        "<|eot_id|>",
        HEADERS,
        WHO,
        "<|begin_of_text|>",
    ),
    "llama2": Format("<s>[INST] ", " [/INST]", " ", " </s>", ("<s>", "</s>", "[INST]", "[/INST]")),
    "zephyr": _roles("<|ROLE|>\n", "</s>\n", ("<|user|>", "<|assistant|>", "</s>"), WHO),
}

WORDS = "the river town lies north of a bridge school in was is and who founded INST Inst user User assistant Response USER ASSISTANT Instruction "
LETTERS = sorted(
    {chr(c) for c in range(33, 127)}
    | set("\u00e9\u00e8\u200b\u0301\uff5c\uff1c\uff1e\uff3b\uff3d\n")
)


def _bytes():
    """Byte-level BPE."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([WORDS], trainer)
    return tokenizer


def _characters():
    """SentencePiece's BPE with a dummy prefix and bytes for unknown characters, without merges."""
    tokens = ["<unk>", *(f"<0x{i:02X}>" for i in range(256)), "\u2581", *LETTERS]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(
        models.BPE(vocab, [], byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return tokenizer


def _unigram():
    words = [*WORDS.split(), *(f"\u2581{word}" for word in WORDS.split())]
    scores = {
        "<unk>": 0.0,
        **dict.fromkeys(LETTERS, -9.0),
        "\u2581": -8.0,
        **dict.fromkeys(words, -5.0),
    }
    tokenizer = Tokenizer(models.Unigram(list(scores.items()), unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return tokenizer


def _wordpiece():
    inner = [f"##{letter}" for letter in LETTERS]
    tokens = ["[UNK]", *LETTERS, *inner, *WORDS.split()]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=200))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return tokenizer


MODELS = {"bytes": _bytes, "characters": _characters, "unigram": _unigram, "wordpiece": _wordpiece}

# vocabulary, chat format, how the markers are known: "special" or "added" tokens of the tokenizer,
# or "plain" strings of ordinary tokens but for <s> and </s>.
KINDS = [
    ("bytes", "chatml", "special"),
    ("bytes", "llama2", "plain"),
    ("characters", "llama2", "plain"),
    ("unigram", "llama3", "special"),
    ("wordpiece", "zephyr", "added"),
]


class Kind:
    """One tokenizer with its template, loaded as a run loads it, without weights."""

    def __init__(self, kind, folder):
        vocabulary, name, how = kind
        self.format = FORMATS[name]
        tokenizer = MODELS[vocabulary]()
        given = {"chat_template": self.format.template, "clean_up_tokenization_spaces": False}
        special = [
            m
            for m in self.format.markers
            if how == "special" or (how == "plain" and m in ("<s>", "</s>"))
        ]
        given["additional_special_tokens"] = special
        self.wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **given)
        if how == "added":
            self.wrapped.add_tokens(
                [AddedToken(marker, normalized=False) for marker in self.format.markers]
            )
        self.wrapped.save_pretrained(folder)
        self.control = set(self.wrapped.get_added_vocab().values())
        self.model = object.__new__(HFModel)
        self.model.name, self.model.n_layers, self.model.window = "-".join(kind), 1, 100_000
        self.model._pool, self.model._pool_lock, self.model.shape = KVPool(1), Lock(), None
        self.model._load_tokenizer(
            ModelConfig(name=self.model.name, source=str(folder)),
            str(folder),
            NetworkEnds(len(self.wrapped), ()),
        )
        self.tokens = Tokens(folder, self.model.name)
