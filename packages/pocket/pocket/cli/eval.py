"""`harness pocket eval`: test a model on fresh texts, and write card.json and CARD.md."""

import json as json_
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from harness.cli.command import output, setting
from harness.cli.options import Json, Skills
from harness.cli.output import say
from harness.cli.table_output import aligned_columns
from harness.config.schema import ModelConfig
from harness.llm.backend import load_model
from harness.storage.files import check_writable
from pocket.card import NAME, Exam
from pocket.cli.model_card import Model, chosen_skills, model_card, model_folder
from pocket.eval.card import tables, with_results, write_card
from pocket.eval.exam import examine


def eval_(
    folder: Model = None,
    skill: Skills = [],  # noqa: B006 - Typer copies it
    questions: Annotated[int, setting("--questions N", "Questions per table cell.", min=2)] = 100,
    seed: Annotated[int, setting("--seed N", "Random seed of the questions.")] = 0,
    out: Annotated[
        str | None, output("--out FOLDER", "Folder for card.json and CARD.md.", "the model's")
    ] = None,
    json: Json = False,
) -> int:
    """Test a model on fresh texts and write its model card."""
    path = model_folder(folder)
    skills_to_test = chosen_skills(skill) or None  # None: all
    card_folder = path
    if out is not None:
        card_folder = Path(out)
    check_writable(card_folder)
    card = model_card(path)
    model = load_model(ModelConfig(name=NAME, source=str(path.resolve()), dtype="float32"))
    results = examine(model, questions=questions, seed=seed, progress=say, skills=skills_to_test)
    write_card(with_results(card, results, Exam(questions, seed)), card_folder)
    if json:
        results_as_json = [asdict(result) for result in results]
        print(json_.dumps({"card": str(card_folder), "results": results_as_json}))
        return 0
    for heading, table in tables(results):
        print(f"{heading}\n{aligned_columns(table)}\n")
    print(card_folder)
    return 0
