"""`harness push BUNDLE.zip OWNER/NAME`: a bundle of `harness export` as a data set repository of
the hub."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import output
from harness.cli.output import say
from harness.errors import UserError
from harness_audit import hub_push


def push(
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE.zip", help="A file of harness export.")],
    repository: Annotated[
        str, typer.Argument(metavar="OWNER/NAME", help="The repository, made where there is none.")
    ],
    public: Annotated[
        bool, output("--public", "Everybody may read a repository that is made now.")
    ] = False,
) -> int:
    """Push a bundle to the Hugging Face hub as a data set repository, private unless --public is
    given.

    Beside the file stands a card with the runs' tables and the checksum that harness verify prints.
    The texts of data sets go along as the bundle has them: harness export --keep-texts no leaves
    them out.
    """
    path = Path(bundle)
    if not path.is_file():
        raise UserError(
            f"there is no file '{bundle}'; write one with: harness export RUN... bundle.zip"
        )

    print(hub_push.push(path, repository, private=not public))
    say(
        f"others check it with: hf download --repo-type dataset {repository} {hub_push.NAME}, then "
        "harness verify"
    )
    return 0
