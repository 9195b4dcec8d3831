"""Vectors of texts by the harness's encoder of the same weights, in one call: MODEL TEXTS."""

import json
import sys

from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.embed.load import load_encoder

model, texts = sys.argv[1:]
config = EncoderConfig(name="minilm", source=model, device="cpu", pooling="mean")
encoder = load_encoder(config, Meter("index"), "encoder")
with open(texts, encoding="utf-8") as file:
    passages = json.load(file)
assert len(encoder.encode(passages, "passage")) == len(passages)
