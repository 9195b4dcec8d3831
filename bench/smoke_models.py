"""Random models of real architectures and a script for `make smoke-real`, made once in the results
folder."""

import json
from pathlib import Path

from harness.config.layers import Choices
from harness.config.resolve import resolve_encoder, resolve_model

# Factors of the output's weights (sampled tokens are often the likeliest) and of the end's (some 20
# tokens an answer).
SHARP, ENDS = 30.0, 2.5
SCRIPTED_REPLY = "Ada"


def language_model(folder: Path) -> Path:
    """A random Llama of two layers with the tokenizer and chat template of SmolLM2; its answers are
    noise."""
    if not (folder / "config.json").exists():
        import torch
        from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

        from harness.llm.model_info import find_or_download

        source = find_or_download(resolve_model(Choices(model="smollm2-135m")).value).folder
        tokenizer = AutoTokenizer.from_pretrained(str(source))
        torch.manual_seed(0)
        sizes = {
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
        }
        sizes |= {"num_key_value_heads": 2, "max_position_embeddings": 8192}
        ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
        model = LlamaForCausalLM(
            LlamaConfig(vocab_size=len(tokenizer), tie_word_embeddings=False, **sizes, **ends)
        )
        with torch.no_grad():
            model.lm_head.weight *= SHARP
            last = model.lm_head.weight[tokenizer.eos_token_id]
            last *= ENDS
            # No reply is empty: this token is unlikely at the state in which a reply begins.
            chat = [{"role": "user", "content": "Who wrote it?"}]
            asked = tokenizer.apply_chat_template(
                chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
            state = model.model(**asked).last_hidden_state[0, -1]
            last -= state * (last @ state + SHARP) / (state @ state)
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
    return folder


def classifier(folder: Path) -> Path:
    """A random XLM-R of two layers that classifies tokens, with the words of the small encoder."""
    if not (folder / "config.json").exists():
        import torch
        from transformers import AutoTokenizer, XLMRobertaConfig, XLMRobertaForTokenClassification

        from harness.embed.encoder_info import encoder_folder

        tokenizer = AutoTokenizer.from_pretrained(
            str(encoder_folder(resolve_encoder(Choices(sets={"encoder": "minilm"})).value))
        )
        torch.manual_seed(0)
        sizes = {
            "hidden_size": 256,
            "intermediate_size": 512,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
        }
        sizes["max_position_embeddings"] = 514  # positions begin behind that of the padding
        made = XLMRobertaConfig(
            vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **sizes
        )
        XLMRobertaForTokenClassification(made).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def script(out: Path) -> Path:
    """The table of the scripted model: one reply to everything, and one probe."""
    path = out / "script.json"
    if not path.exists():
        table = {"replies": [{"reply": SCRIPTED_REPLY}], "probes": [{"p": {"Yes": 0.2, "No": 0.8}}]}
        path.write_text(json.dumps(table), "utf-8")
    return path
