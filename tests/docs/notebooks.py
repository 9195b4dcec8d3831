"""The notebooks in docs/: run them with their outputs stored (`make notebooks`), or cell by cell in this process.

python -m tests.docs.notebooks
"""

import os
import tempfile
from pathlib import Path

import nbformat

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOTEBOOKS = sorted(DOCS.glob("*.ipynb"))


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
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]  # what libraries say at import
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for each in NOTEBOOKS:
        store(each)
