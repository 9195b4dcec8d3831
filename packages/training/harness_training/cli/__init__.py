"""The commands that this package adds to `harness`."""

from harness.cli.command import Commands

COMMANDS = Commands(
    {"Train models": {"train": "Train and evaluate a method's adapters"}}, "harness_training.cli"
)
