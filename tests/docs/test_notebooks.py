"""The notebooks run, and print what is stored in them.

`python -m tests.docs.test_notebooks` runs them and stores their outputs in them (make notebooks).
"""

import os
import tempfile
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from tests.docs.pages import ROOT

NOTEBOOKS = sorted((ROOT / "docs").glob("*.ipynb"))


def store(path):
    """Run a notebook in an empty folder and store its outputs in it. Raises CellExecutionError."""
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as place:
        os.environ["HARNESS_HOME"] = str(Path(place) / "home")
        NotebookClient(notebook, timeout=300, resources={"metadata": {"path": place}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # moments: they change every time
        if cell.cell_type == "code":
            cell.outputs = [
                one for one in cell.outputs if one.get("name") != "stderr"
            ]  # what libraries say at import
    nbformat.write(notebook, path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_stored_in_it(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # In this process: a kernel of its own would import for 6 s.
    shell = InteractiveShell()
    shell.history_manager.enabled = False
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "code":
            continue
        with capture_output() as printed:
            done = shell.run_cell(cell.source, store_history=False)
        done.raise_error()
        stored = {output.output_type: output for output in cell.outputs}
        assert (
            printed.stdout.split() == stored.get("stream", {"text": ""})["text"].split()
            or done.result is not None
        )
        if done.result is not None:
            shown, _ = shell.display_formatter.format(done.result)
            kept = stored["execute_result"].data
            kind = (
                "text/html" if "text/html" in kept else "text/plain"
            )  # a frame's text depends on the terminal
            assert shown[kind] == kept[kind]


if __name__ == "__main__":
    for each in NOTEBOOKS:
        store(each)
