"""The fast tokenizer lays prompts out token for token as transformers' own does."""

import subprocess
import sys

import pytest
from harness_training.teacher import Teacher
from hypothesis import given
from hypothesis import strategies as st
from pocket.card import EMBEDDED

from harness.errors import CannotRun
from harness.llm.fast_tokenizer import FastTokenizer


@pytest.fixture(scope="session")
def both():
    from transformers import AutoTokenizer

    return Teacher(FastTokenizer(EMBEDDED)), Teacher(AutoTokenizer.from_pretrained(str(EMBEDDED)))


@given(text=st.text() | st.sampled_from(["<|end|>", "<|begin|><|user|>x", "a\n\nb", " "]))
def test_the_same_tokens(text, both):
    light, whole = both
    assert light.text.encode_data(text) == whole.text.encode_data(text)
    assert light.text.encode_template(text) == whole.text.encode_template(text)
    assert light.offsets(text) == whole.offsets(text)


def test_the_same_frame_control_tokens_and_template(both):
    light, whole = both
    assert (light.before_first_user_ids, light.before_reply_ids, light.before_next_user_ids) == (
        whole.before_first_user_ids,
        whole.before_reply_ids,
        whole.before_next_user_ids,
    )
    assert (light.text.control, light.text.bos) == (whole.text.control, whole.text.bos)
    assert len(light.text.control) == 4


@pytest.mark.parametrize("content", [None, b"\xff{"])
def test_a_file_that_is_missing_or_broken_is_one_sentence(content, tmp_path):
    if content:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(CannotRun, match=f"the tokenizer in {tmp_path} cannot be read: "):
        FastTokenizer(tmp_path)


def test_it_imports_neither_transformers_nor_torch():
    code = (
        "import sys; from pathlib import Path; from harness.llm.fast_tokenizer import "
        "FastTokenizer; "
        "from harness_training.teacher import Teacher; Teacher(FastTokenizer(Path(sys.argv[1]))); "
        "print([m for m in ('torch', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(EMBEDDED)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
