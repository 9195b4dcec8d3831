"""A bundle as a data set repository of the Hugging Face hub: the file as it is, beside a card with
the runs' tables.

Where the hub is, and as whom one pushes, huggingface_hub reads from HF_ENDPOINT, HF_TOKEN and its
login. Others fetch the file and run `harness verify bundle.zip`; the card names the checksum that
this prints.
"""

from pathlib import Path

from harness.errors import SaveError, UserError
from harness.storage.run_folder import read_run
from harness_audit.bundle import Bundle, open_bundle
from reports.columns import sections
from reports.main_table import as_frame, best_first, table_rows
from reports.table_formats import render_sections

NAME = "bundle.zip"
_HEAD = Path(__file__).with_name("hub_card.md").read_text("utf-8")


def push(path: Path, repository: str, *, private: bool = True) -> str:
    """Push a bundle to a data set repository of the hub, which is made if there is none; returns
    its address.

    Args:
        path: The bundle.
        repository: Its name, OWNER/NAME.
        private: Whether a repository that is made now is private; one that exists stays as it is.

    Raises:
        UserError: The bundle is damaged or none, or the hub does not take the name.
        SaveError: The hub did not take the file.
    """
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HFValidationError

    with open_bundle(path) as bundle:
        if bundle.changed:
            raise UserError(
                f"{path} is not as it was exported ({', '.join(bundle.changed)}); export it again"
            )
        files_to_add = [
            CommitOperationAdd("README.md", card(bundle, repository).encode()),
            CommitOperationAdd(NAME, path),
        ]
    api = HfApi()
    try:
        address = api.create_repo(repository, repo_type="dataset", private=private, exist_ok=True)
        message = f"Runs of longdoc-harness, contents sha256 {bundle.sha256}"
        api.create_commit(repository, files_to_add, commit_message=message, repo_type="dataset")
    except HFValidationError as error:
        raise UserError(
            f"'{repository}' is no name of a repository ({error}); use OWNER/NAME"
        ) from error
    except Exception as error:
        # The client has changed its HTTP library twice: whatever is raised, nothing was taken.
        why = " ".join(str(error).split())[:300]
        fix = "check the connection, or log in with: hf auth login, or set HF_TOKEN"
        raise SaveError(f"the hub did not take {path} ({why}); {fix}") from error
    return str(address)


def card(bundle: Bundle, repository: str) -> str:
    """The text of README.md in the repository: what the bundle holds, its checksum, licences and
    the tables of its runs.

    Args:
        bundle: The bundle.
        repository: The name of the repository, OWNER/NAME.
    """
    # With their numbers in memory: making the tables goes over the records many times.
    runs = [read_run(run.path, hold="numbers") for run in bundle.runs.values()]
    licences: dict[str, str] = {}
    for run in runs:
        dataset = run.config.dataset
        licences[dataset.name] = dataset.licence or "licence not recorded"
    names_with_licences = ", ".join(
        f"{name} ({licence})" for name, licence in sorted(licences.items())
    )
    title = repository.rpartition("/")[2]
    head = _HEAD.format(
        title=title,
        runs=len(runs),
        file=NAME,
        digest=bundle.sha256,
        licences=names_with_licences,
    )
    table = as_frame(best_first(table_rows(runs)))
    return head + render_sections(sections(table), "markdown")
