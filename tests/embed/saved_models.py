"""Tiny encoders, saved as folders."""

import json

import torch
import transformers as hf

WORDS = [
    "the",
    "old",
    "bridge",
    "lies",
    "north",
    "of",
    "river",
    "town",
    "mira",
    "query",
    "passage",
    ":",
]
SIZES = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
ARCHITECTURES = {
    "bert": (hf.BertConfig, hf.BertModel, ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]),
    "xlm-roberta": (hf.XLMRobertaConfig, hf.XLMRobertaModel, ["<s>", "<pad>", "</s>", "<unk>"]),
    "mpnet": (hf.MPNetConfig, hf.MPNetModel, ["<s>", "<pad>", "</s>", "<unk>"]),
}


def tokenizer(special):
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocab = {w: i for i, w in enumerate([*special, *WORDS])}
    bert = special[0] == "[PAD]"
    pad, unk, begin, end = special if bert else (special[1], special[3], special[0], special[2])
    made = Tokenizer(models.WordLevel(vocab, unk_token=unk))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} $B {end}",
        special_tokens=[(begin, vocab[begin]), (end, vocab[end])],
    )
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=made, model_max_length=24, model_input_names=["input_ids", "attention_mask"],
        pad_token=pad, unk_token=unk, cls_token=begin, sep_token=end,
    )  # fmt: skip


def saved(folder, architecture="bert", seed=0, cls=None, **more):
    """A folder of transformers alone, with random weights large enough that pooling matters."""
    config_class, network, special = ARCHITECTURES[architecture]
    torch.manual_seed(seed)
    words = tokenizer(special)
    sizes = {
        "vocab_size": len(words),
        "pad_token_id": words.pad_token_id,
        "max_position_embeddings": 32,
        **SIZES,
    }
    (cls or network)(config_class(initializer_range=0.5, **sizes, **more)).save_pretrained(folder)
    words.save_pretrained(folder)
    return str(folder)


def packed(tmp_path, pooling, *, normalise=False, legacy=False):
    """A folder as sentence-transformers saves it, in the newer or the older form."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    words = Transformer(saved(tmp_path / "raw"))
    parts = [words, Pooling(16, pooling), *([Normalize()] if normalise else [])]
    folder = tmp_path / "packed"
    SentenceTransformer(modules=parts, device="cpu").save(str(folder))
    if legacy:
        (path,) = folder.glob("*Pooling/config.json")
        flags = {
            f"pooling_mode_{w}": w.startswith(pooling)
            for w in ("cls_token", "max_tokens", "mean_tokens")
        }
        path.write_text(json.dumps({"word_embedding_dimension": 16, **flags}))
    return folder
