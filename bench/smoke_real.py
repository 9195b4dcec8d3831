"""Every method preset on two real rows of each data set that it serves, answered by the default model.

    HARNESS_TEST_DATA=FOLDER python -m bench.smoke_real [--out FOLDER] [--dataset NAME,..] [--method NAME,..]
    python -m bench.smoke_real --table        the table of what is stored; nothing is run

Ordinary runs in one results folder: the same command goes on where it was stopped. Data sets with short texts come
first, and presets that were quick on them. Profile `small` stands in for weights that must be fetched, a random
classifier for LLMLingua-2's. Answers are cut at 32 tokens. The rows are in the folder `data` of HARNESS_TEST_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config import presets
from harness.config.layers import Choices
from harness.engine.plan import plan_choices
from harness.errors import DataError, UserError
from harness.storage.run_folder import find_runs, read_run

QUESTIONS = 2
PROFILE = "small"
# A round runs the rows that are expected to take at most so many seconds.
CEILINGS = (60.0, 300.0, 1800.0, float("inf"))
NO_DOCUMENTS = "eli5-documents.json"
REFUSED = "refused.json"


@dataclass(frozen=True)
class Rows:
    """Real rows of a data set: a file below `data`, its words a question, and settings. Shortest texts first."""

    file: str
    words: int
    sets: dict[str, str] = field(default_factory=dict)


def _longbench(name: str, words: int) -> dict[str, Rows]:
    """LongBench's set and, where there is one, LongBench-E's, which takes the same rows."""
    known = presets.names("datasets")
    return {
        p: Rows(f"longbench/{name}.jsonl", words) for p in (f"longbench/{name}", f"longbench/{name}_e") if p in known
    }


DATA: dict[str, Rows] = {
    "nq": Rows("nq/nq_open_oracle_sample.jsonl", 80),
    "popqa": Rows("popqa/popqa_sample.jsonl", 340),
    "asqa": Rows("asqa/alce_asqa_demos.json", 500),
    "eli5": Rows("eli5/eli5_kilt_sample.jsonl", 500, {"dataset.documents": f"{{out}}/{NO_DOCUMENTS}"}),
    "2wikimultihopqa": Rows("2wikimultihopqa/dev_sample.json", 670),
    "hotpotqa": Rows("hotpotqa/hotpot_dev_distractor_sample.json", 880),
    "musique": Rows("musique/musique_ans_v1.0_dev_sample.jsonl", 1600),
    "quality": Rows("quality/quality_v1.0.1_sample.jsonl", 2300),
    "qasper": Rows("qasper/qasper-train-v0.3-sample.json", 2900),
    **_longbench("qasper", 2900),
    **_longbench("multifieldqa_zh", 4000),
    **_longbench("multifieldqa_en", 4400),
    **_longbench("2wikimqa", 5500),
    "triviaqa": Rows(
        "triviaqa/wikipedia-sample.json", 6000, {"dataset.documents": "{data}/triviaqa/evidence_wikipedia.jsonl"}
    ),
    **_longbench("dureader", 8000),
    **_longbench("triviaqa", 8300),
    **_longbench("hotpotqa", 9000),
    **_longbench("musique", 10500),
    **_longbench("narrativeqa", 25000),
    "narrativeqa": Rows("narrativeqa", 46000),
}


@dataclass(frozen=True)
class Cell:
    """What is stored of a preset on a data set."""

    done: int
    failed: int
    truncated: int
    seconds: float
    errors: tuple[str, ...]


Cells = dict[tuple[str, str], Cell]
Refused = dict[str, dict[str, str]]
"""Data set -> preset -> why it does not serve it."""


def stored(out: Path) -> Cells:
    """(preset, data set) -> its run in the results folder; a preset with a stand-in is under its own name."""
    cells = {}
    for folder in find_runs(out) if out.is_dir() else ():
        try:
            run = read_run(folder)
        except DataError:
            continue  # has no record yet
        usages = [row["usage"] for row in (*run.records, *run.documents)]
        seconds = sum(phase["seconds"] for usage in usages for phase in usage.values())
        errors = [row["error"] for row in run.records if row["error"]]
        name = str(run.config["method"]["name"]).partition("[")[0]
        cells[name, run.config["dataset"]["name"]] = Cell(
            len(run.records),
            len(errors),
            sum(row["truncated"] is not None for row in run.records),
            seconds,
            tuple(f"{error['type']}: {error['message']}" for error in errors),
        )
    return cells


def expected(method: str, dataset: str, cells: Cells) -> float:
    """Seconds of a row, in proportion to the longest texts that the method has answered; 0 where there are none."""
    known = [(DATA[d].words, cell.seconds) for (m, d), cell in cells.items() if m == method and d in DATA and cell.done]
    words, seconds = max(known, default=(1, 0.0))
    return seconds * DATA[dataset].words / words


def settings(dataset: str, data: Path, out: Path) -> dict[str, str]:
    """The settings of a data set's rows; documents that its sample lacks are written to the results folder."""
    made = {"dataset.max_answer_tokens": "32"}
    for key, value in DATA[dataset].sets.items():
        path = Path(value.format(data=data, out=out))
        if path.name == NO_DOCUMENTS and not path.exists():
            # KILT's questions come without documents; ASQA's passages are real ones.
            passages = [row["docs"] for row in json.loads((data / "asqa/alce_asqa_demos.json").read_text("utf-8"))]
            asked = [json.loads(line)["input"] for line in (data / DATA[dataset].file).read_text("utf-8").splitlines()]
            path.write_text(json.dumps({q: passages[n % len(passages)] for n, q in enumerate(asked)}), "utf-8")
        made[key] = str(path)
    return made


def classifier(folder: Path) -> Path:
    """A random XLM-R of two layers that classifies tokens, with the words of the small encoder."""
    if not (folder / "config.json").exists():
        import torch
        from transformers import AutoTokenizer, XLMRobertaConfig, XLMRobertaForTokenClassification

        from harness.config.resolve import resolve_part
        from harness.embed.encoder_info import encoder_folder

        encoder: Any = resolve_part("encoders", Choices(sets={"encoder": "minilm"})).parts["encoder"]
        tokenizer = AutoTokenizer.from_pretrained(str(encoder_folder(encoder)))
        torch.manual_seed(0)
        sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4}
        sizes["max_position_embeddings"] = 514  # positions begin behind that of the padding
        made = XLMRobertaConfig(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **sizes)
        XLMRobertaForTokenClassification(made).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    return folder


def own(method: str, out: Path) -> dict[str, str]:
    """What is set for a preset alone: LLMLingua-2's classifier."""
    named = any("classifier" in (layer.get("params") or {}) for _, layer in presets.read("methods", method))
    return {"method.classifier": str(classifier(out / "classifier"))} if named else {}


def source_of(method: str) -> list[str]:
    """The presets that a preset takes a number from: they must be in its command."""
    layers = [layer.get("params") or {} for _, layer in presets.read("methods", method)]
    values = [str(value) for params in layers for value in params.values()]
    return [value.removeprefix("from:") for value in values if value.startswith("from:")]


def refusal(method: str, dataset: str, data: Path, out: Path) -> str:
    """Why a preset does not serve a data set, in a sentence; "" where it does."""
    sets = {**settings(dataset, data, out), **own(method, out)}
    file = str(data / DATA[dataset].file)
    try:
        plan_choices(Choices(method, dataset, file, profile=PROFILE, limit=QUESTIONS, sets=sets, require_full=True))
    except UserError as error:
        return "; ".join(error.sentences)
    return ""


def run(dataset: str, methods: list[str], data: Path, out: Path) -> None:
    """One `harness run`; a question that fails is in its run folder, a row that does not run on stderr."""
    sets = {**settings(dataset, data, out), **own(methods[0], out)}
    command = ["run", "--method", ",".join(methods), "--dataset", dataset, "--data", str(data / DATA[dataset].file)]
    command += ["--limit", str(QUESTIONS), "--profile", PROFILE, "--out", str(out), "--mlflow", "off", "--require-full"]
    command += ["--set", *(f"{key}={value}" for key, value in sets.items())]
    print(f"=== {dataset}: {len(methods)} presets", file=sys.stderr, flush=True)
    code = subprocess.run(
        [sys.executable, "-m", "harness", *command], stdout=subprocess.DEVNULL, check=False
    ).returncode
    if code == 130:
        sys.exit(130)


def left(methods: list[str], dataset: str, cells: Cells, refused: Refused) -> list[str]:
    """The presets that are not answered whole on a data set that they serve."""
    served = (m for m in methods if m not in refused.get(dataset, {}))
    return [m for m in served if (m, dataset) not in cells or cells[m, dataset].done < QUESTIONS]


def go(methods: list[str], datasets: list[str], data: Path, out: Path) -> None:
    """Run what is left, in rounds of growing expected time. A preset's first row says how long its others may take."""
    refused: Refused = {}
    begun: set[str] = set()
    for ceiling in CEILINGS:
        for dataset in datasets:
            cells = stored(out)
            if dataset not in refused:
                sentences = {method: refusal(method, dataset, data, out) for method in methods}
                refused[dataset] = {method: sentence for method, sentence in sentences.items() if sentence}
                (out / REFUSED).write_text(json.dumps(refused, indent=1), "utf-8")
            costs = {method: expected(method, dataset, cells) for method in left(methods, dataset, cells, refused)}
            unknown = [m for m, cost in costs.items() if not cost and (m not in begun or ceiling == CEILINGS[-1])]
            known = sorted((m for m, cost in costs.items() if 0 < cost <= ceiling), key=lambda m: costs[m])
            begun.update(costs)
            chosen = [*known, *unknown]
            plain = [m for m in chosen if not own(m, out)]
            for some in (plain, [m for m in chosen if m not in plain]):
                if some:
                    run(dataset, list(dict.fromkeys([*(s for m in some for s in source_of(m)), *some])), data, out)


def table(methods: list[str], datasets: list[str], out: Path) -> str:
    """Counts by data set, then the failures by preset and what is not answered whole."""
    cells = {key: cell for key, cell in stored(out).items() if key[0] in methods and key[1] in datasets}
    refused: Refused = json.loads((out / REFUSED).read_text("utf-8")) if (out / REFUSED).exists() else {}
    heads = ("served", "whole", "failed", "truncated", "left")
    lines = [f"{'data set':<28}" + "".join(f"{head:>10}" for head in (*heads, "seconds"))]
    for dataset in datasets:
        here = [cell for (_, d), cell in cells.items() if d == dataset]
        served = sum(method not in refused.get(dataset, {}) for method in methods)
        whole = sum(cell.done >= QUESTIONS and not cell.failed for cell in here)
        failed, cut = sum(bool(cell.failed) for cell in here), sum(bool(cell.truncated) for cell in here)
        numbers = (served, whole, failed, cut, len(left(methods, dataset, cells, refused)))
        lines.append(f"{dataset:<28}" + "".join(f"{n:>10}" for n in numbers) + f"{sum(c.seconds for c in here):>10.0f}")
    errors: dict[str, list[str]] = defaultdict(list)
    for (method, dataset), cell in sorted(cells.items()):
        for error, count in Counter(cell.errors).items():
            errors[f"{error[:200]}"].append(f"{method} on {dataset}" + (f" ({count}x)" if count > 1 else ""))
    for dataset, sentences in refused.items():
        for method in {*methods} & {*sentences} if dataset in datasets else ():
            errors[f"not served: {sentences[method].replace(repr(method), 'it')[:200]}"].append(
                f"{method} on {dataset}"
            )
    lines += ["", "failures and refusals:" if errors else "no question failed"]
    lines += [f"  {error}\n    {', '.join(rows)}" for error, rows in errors.items()]
    seconds = defaultdict(float)
    for (method, _), cell in cells.items():
        seconds[method] += cell.seconds
    slow = sorted(seconds, key=lambda m: -seconds[m])[:10]
    lines += ["", "slowest: " + ", ".join(f"{m} {seconds[m]:.0f} s" for m in slow)]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/smoke-real"))
    parser.add_argument("--dataset", default=",".join(DATA), help="data sets, separated by commas")
    parser.add_argument("--method", default=",".join(presets.names("methods")), help="presets, separated by commas")
    parser.add_argument("--table", action="store_true", help="print the table of what is stored; run nothing")
    flags = parser.parse_args()
    methods, datasets = flags.method.split(","), [name for name in DATA if name in flags.dataset.split(",")]
    if not flags.table:
        root = os.environ.get("HARNESS_TEST_DATA")
        if not root:
            sys.exit("HARNESS_TEST_DATA is not set: it names the folder that holds data/ with real rows")
        flags.out.mkdir(parents=True, exist_ok=True)
        try:
            go(methods, datasets, Path(root, "data").resolve(), flags.out.resolve())
        except KeyboardInterrupt:
            print("interrupted; the same command goes on", file=sys.stderr)
            sys.exit(130)
    print(table(methods, datasets, flags.out))


if __name__ == "__main__":
    main()
