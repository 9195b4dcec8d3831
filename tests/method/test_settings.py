"""A setting says all about itself once: its default, limits, meaning, and what it changes."""

import pytest
from pydantic import ValidationError

from harness.method import MethodConfig
from harness.method.settings import (
    help_of,
    index_fields,
    index_setting,
    recording_fields,
    recording_setting,
    setting,
)


class Config(MethodConfig):
    """Settings of each kind, and one that nobody declares."""

    size: int = index_setting(3, gt=0, help="Words of a chunk.")
    k: int = setting(5, help="Chunks that are shown.")
    stops: int | None = recording_setting(None, help="Stops to record.")
    bare: int = 1


class Extended(Config):
    """A setting more, and another default of one."""

    k: int = setting(7, help="Chunks that are shown.")
    overlap: int = index_setting(0, help="Words that two chunks share.")


def test_declared_and_undeclared_settings_change_the_index():
    assert index_fields(Config) == ("bare", "size")


def test_an_extended_class_has_the_settings_of_its_base():
    assert index_fields(Extended) == ("bare", "overlap", "size")


def test_recording_settings_are_those_that_change_no_answer():
    assert recording_fields(Config) == ("stops",)


def test_a_limit_is_enforced():
    with pytest.raises(ValidationError, match="greater than 0"):
        Config(size=0)


def test_help_is_what_the_setting_says():
    assert help_of(Config.model_fields["size"]) == "Words of a chunk."


def test_show_prints_the_help_below_the_name(command):
    code, out, _ = command("show", "pecan")
    assert code == 0
    assert "\n  chunk_tokens\n      Most tokens of a level-1 node" in out
