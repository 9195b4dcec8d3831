"""Markers of the end of a turn at the end of a reply: cut off in both back ends, and counted."""

import json
import shutil
from pathlib import Path

import pytest

from harness import scorers
from harness.config.schema import ModelConfig
from harness.cost.meter import Meter
from harness.llm.backend import load_model
from harness.llm.endings import END_MARKERS, endings_pattern, markers_of, reply_end
from tests.llm.conftest import let_replies_be
from tests.llm.endpoints import asked
from tests.llm.loopback import completion


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Paris<|eot_id|>", "Paris"),
        ("Paris <|eot_id|>\n<|end_of_text|> ", "Paris "),
        ("<|eot_id|>Paris", "<|eot_id|>Paris"),
        ("The marker <|eot_id|> ends a turn.", "The marker <|eot_id|> ends a turn."),
        ("Paris <|eot_", "Paris <|eot_"),
        ("Paris \n", "Paris \n"),
        ("<|im_end|>", ""),
        ("", ""),
    ],
)
def test_only_markers_at_the_end_go(text, kept):
    assert reply_end(text, (), endings_pattern(END_MARKERS)) == (len(kept), kept != text)
    assert reply_end(text, (), endings_pattern([])) == (len(text), False)


def test_the_models_own_markers():
    added = [("<s>", True), ("<|im_end|>", False), ("<think>", False), ("  ", False)]
    template = "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n  "
    assert markers_of(added, template) == {"<s>", "<|im_end|>"}
    assert markers_of([], template, "<|turn_end|>\n<|turn|>user") == {"<|turn_end|>"}
    assert markers_of([], template, "\n\nHuman: ") == set()


@pytest.mark.parametrize(
    ("sent", "finish"), [("Paris<|eot_id|>", "length"), ("Paris</s>\n", "stop")]
)
def test_what_a_server_leaves_is_cut_and_counted(sent, finish):
    written, meter, _ = asked(completion(sent, finish))
    assert (written.text, written.finish, written.ending) == ("Paris", "stop", True)
    assert len(written.offsets) == len(written.span)
    assert meter.usage()["answer"]["endings_cut"] == 1
    assert scorers.score("flashrag.em", written.text, ["Paris"]) == 1.0


def test_a_stop_string_comes_first_and_a_plain_reply_stays():
    for sent, ending, finish in (
        ("Paris<|eot_id|>\n\nmore", True, "stop"),
        ("Paris", False, "length"),
    ):
        written, meter, _ = asked(completion(sent, "length"), stop=["\n\n"])
        assert (written.text, written.ending, written.finish) == ("Paris", ending, finish)
        assert meter.usage()["answer"]["endings_cut"] == ending


def _says(monkeypatch, ids):
    """Let the next reply be these tokens."""
    left = list(ids)
    let_replies_be(monkeypatch, lambda sampler, logits: left.pop(0))


def test_a_marker_in_ordinary_tokens_is_cut_from_text_tokens_and_context(tiny, monkeypatch):
    end = tiny.text.tokenizer.eos_token
    said = [*tiny.text.encode_data("Ada built"), *tiny.text.encode_data(f"{end}\n")]
    _says(monkeypatch, [*said, *tiny.stop_ids])
    meter = Meter()
    with tiny.session(meter) as s:
        s.user("Who?")
        written = s.write(len(said) + 1)
        assert (written.text, written.ending) == ("Ada built", True)
        assert len(written.offsets) == len(written.span) == len(tiny.text.encode_data("Ada built"))
        assert s.length() == written.span.end
    assert meter.usage()["answer"]["endings_cut"] == 1
    assert meter.usage()["answer"]["tokens_out"] == len(said)


def test_an_end_that_the_tokenizer_does_not_flag_ends_a_reply(
    tiny, tiny_folder, tmp_path, monkeypatch
):
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "unflagged"))
    end = tiny.text.tokenizer.decode(tiny.before_next_user_ids[:1])
    for name in ("tokenizer.json", "tokenizer_config.json"):
        values = json.loads((folder / name).read_text())
        tokens = values.get("added_tokens", []) or list(
            values.get("added_tokens_decoder", {}).values()
        )
        for token in tokens:
            token["special"] = token["special"] and token["content"] != end
        for key in ("additional_special_tokens", "extra_special_tokens"):
            values.pop(key, None)
        values = {key: value for key, value in values.items() if value != end}
        (folder / name).write_text(json.dumps(values))
    model = load_model(ModelConfig(name="unflagged", source=str(folder), device="cpu"))
    (id_,) = model.text.encode_template(end)
    assert id_ not in model.text.control
    assert id_ in model.stop_ids
    _says(monkeypatch, [*model.text.encode_data("Ada"), id_])
    with model.session(Meter()) as s:
        s.user("Who?")
        written = s.write(40)
    assert (written.text, written.finish) == ("Ada", "stop")
