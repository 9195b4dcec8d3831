"""`harness pocket`: train, test and check the embedded pocket model; each command is a module of
its own."""

from harness.cli.command import Commands, group, join_command_tables

_TABLE = {
    "Train": {
        "train": "Train the model on the skills that methods declare",
        "train-reranker": "Train a small reranker",
    },
    "Test": {
        "eval": "Test a model on fresh texts and write its model card",
        "check": "List the skills that methods declare, and whether the model was trained on them",
    },
}
_ABOUT = "Train, test and check the embedded pocket model."
app = group("pocket", join_command_tables([Commands(_TABLE, "pocket.cli")]), _ABOUT)
