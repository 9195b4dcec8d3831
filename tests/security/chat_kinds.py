"""Twenty synthetic chat tokenizers: what their vocabularies are made of, and how they know the markers of turns."""

from dataclasses import dataclass
from threading import Lock
from types import SimpleNamespace

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from harness.config.schema import ModelConfig
from harness.llm.endpoint_tokens import Tokens
from harness.llm.hf_session import HFModel
from harness.llm.kv import Arena


@dataclass(frozen=True)
class Format:
    """A chat format: the text before each role's content, behind it, and the strings that mark turns."""

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
TURNS = ("<bos>", "<start_of_turn>", "<end_of_turn>")
ALPACA = ("### Instruction:", "### Response:", "</s>")
DEEPSEEK = ("<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>", "</s>")
FORMATS = {
    "chatml": _roles("<|im_start|>ROLE\n", "<|im_end|>\n", ("<|im_start|>", "<|im_end|>"), WHO),
    "llama3": _roles("<|start_header_id|>ROLE<|end_header_id|>\n\n", "<|eot_id|>", HEADERS, WHO, "<|begin_of_text|>"),
    "gemma": _roles("<start_of_turn>ROLE\n", "<end_of_turn>\n", TURNS, ("user", "model"), "<bos>"),
    "phi": _roles("<|ROLE|>\n", "<|end|>\n", ("<|user|>", "<|assistant|>", "<|end|>"), WHO),
    "llama2": Format("<s>[INST] ", " [/INST]", " ", " </s>", ("<s>", "</s>", "[INST]", "[/INST]")),
    "mistral": Format("[INST] ", "[/INST]", "", "</s>", ("<s>", "</s>", "[INST]", "[/INST]"), "<s>"),
    "zephyr": _roles("<|ROLE|>\n", "</s>\n", ("<|user|>", "<|assistant|>", "</s>"), WHO),
    "vicuna": Format("USER: ", "", " ASSISTANT: ", "</s>", ("USER:", "ASSISTANT:", "</s>")),
    "alpaca": Format("### Instruction:\n", "\n\n", "### Response:\n", "</s>\n", ALPACA),
    "deepseek": Format(DEEPSEEK[0], "", DEEPSEEK[1], "</s>", DEEPSEEK),
}

WORDS = "the river town lies north of a bridge school in was is and who founded INST Inst user User assistant Response USER ASSISTANT Instruction "
LETTERS = sorted({chr(c) for c in range(33, 127)} | set("\u00e9\u00e8\u200b\u0301\uff5c\uff1c\uff1e\uff3b\uff3d\n"))
NORMALIZERS = {
    "": None,
    "nfkc": normalizers.NFKC(),
    "lower": normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]),
    "accents": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
    "invisible": normalizers.Sequence([normalizers.Replace(Regex("[\u200b\u200d\ufeff]"), ""), normalizers.NFKC()]),
}


def _bytes(markers, whole):
    """Byte-level BPE; whole: merged up to each marker."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not whole)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([WORDS, *(list(markers) * 40 if whole else [])], trainer)
    return tokenizer


def _characters(markers, whole):
    """SentencePiece's BPE with a dummy prefix and bytes for unknown characters; no merges but for `whole` markers."""
    tokens = ["<unk>", *(f"<0x{i:02X}>" for i in range(256)), "\u2581", *LETTERS]
    merges = []
    for marker in markers if whole else ():
        grown = marker[0]
        for letter in marker[1:].replace(" ", "\u2581"):
            merges.append((grown, letter))
            grown += letter
            tokens.append(grown)
    merges = list(dict.fromkeys(merges))
    vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    return tokenizer


def _unigram(markers, whole):
    words = [*WORDS.split(), *(f"\u2581{word}" for word in WORDS.split())]
    marked = [m.replace(" ", "\u2581") for m in markers] if whole else []
    scores = {"<unk>": 0.0, **dict.fromkeys(LETTERS, -9.0), "\u2581": -8.0, **dict.fromkeys(words, -5.0)}
    tokenizer = Tokenizer(models.Unigram(list({**scores, **dict.fromkeys(marked, -1.0)}.items()), unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return tokenizer


def _wordpiece(markers, whole):
    marked = [part for m in markers for part in m.split()] if whole else []
    inner = [f"##{letter}" for letter in LETTERS]
    tokens = ["[UNK]", *LETTERS, *inner, *WORDS.split(), *WORDS.lower().split(), *marked]
    vocab = {token: i for i, token in enumerate(dict.fromkeys([*tokens, *(m.lower() for m in marked)]))}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=200))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit() if whole else pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    return tokenizer


MODELS = {"bytes": _bytes, "characters": _characters, "unigram": _unigram, "wordpiece": _wordpiece}

# vocabulary, chat format, how the markers are known, normaliser. How: "special" and "added" tokens of the tokenizer,
# "vocabulary" as tokens of the model alone, "plain" as strings of
# ordinary tokens but for <s> and </s>.
KINDS = [
    ("bytes", "chatml", "special", ""),
    ("bytes", "chatml", "added", "nfkc"),
    ("bytes", "llama3", "vocabulary", ""),
    ("bytes", "llama2", "plain", ""),
    ("bytes", "vicuna", "plain", "nfkc"),
    ("bytes", "phi", "added", "lower"),
    ("bytes", "zephyr", "plain", "invisible"),
    ("bytes", "deepseek", "vocabulary", ""),
    ("characters", "mistral", "vocabulary", ""),
    ("characters", "llama2", "plain", "nfkc"),
    ("characters", "gemma", "added", ""),
    ("unigram", "gemma", "added", "invisible"),
    ("unigram", "alpaca", "vocabulary", ""),
    ("unigram", "chatml", "special", "nfkc"),
    ("unigram", "llama2", "plain", "accents"),
    ("unigram", "llama3", "vocabulary", "lower"),
    ("wordpiece", "phi", "added", "lower"),
    ("wordpiece", "chatml", "vocabulary", "accents"),
    ("wordpiece", "mistral", "plain", "invisible"),
    ("wordpiece", "deepseek", "added", ""),
]


class Kind:
    """One tokenizer with its template, loaded as a run loads it, without weights."""

    def __init__(self, kind, folder):
        vocabulary, name, how, normalizer = kind
        self.format = FORMATS[name]
        tokenizer = MODELS[vocabulary](self.format.markers, how != "plain")
        if NORMALIZERS[normalizer] is not None:
            tokenizer.normalizer = NORMALIZERS[normalizer]
        given = {"chat_template": self.format.template, "clean_up_tokenization_spaces": False}
        special = [m for m in self.format.markers if how == "special" or (how == "plain" and m in ("<s>", "</s>"))]
        given["additional_special_tokens"] = special
        wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **given)
        if how == "added":
            wrapped.add_tokens([AddedToken(marker, normalized=False) for marker in self.format.markers])
        wrapped.save_pretrained(folder)
        self.model = object.__new__(HFModel)
        self.model.name, self.model.layers, self.model.window = "-".join(filter(None, kind)), 1, 100_000
        self.model.net = SimpleNamespace(config=SimpleNamespace(vocab_size=len(wrapped)))
        self.model._arena, self.model._arena_lock, self.model.shape = Arena(1), Lock(), None
        self.model._load_tokenizer(ModelConfig(name=self.model.name, source=str(folder)), str(folder))
        self.tokens = Tokens(folder, self.model.name)
        self.forms = {form for marker in self.format.markers for form in self._forms(marker)}

    def _forms(self, marker):
        """The token sequences by which this tokenizer writes a marker where a template writes it."""
        forms = set()
        for before in ("", "\n", " "):
            ids, alone = (self.model.text.trusted(text) for text in (before + marker, before))
            forms.add(tuple(ids[len(alone) :] if ids[: len(alone)] == alone else ids))
        return forms
