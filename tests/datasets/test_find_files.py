"""Which of a repository's files are one split: a table of real layouts."""

import pytest

from harness.datasets.find_files import UnclearFiles, choose_files

HOTPOT = [
    "README.md",
    "dataset_infos.json",
    "distractor/train-00000-of-00002.parquet",
    "distractor/train-00001-of-00002.parquet",
    "distractor/validation-00000-of-00001.parquet",
    "fullwiki/test-00000-of-00001.parquet",
    "fullwiki/validation-00000-of-00001.parquet",
]
QASPER = [f"qasper/test/000{n}.parquet" for n in (0, 1)]
ANS = [".gitattributes", "musique_ans_v1.0_dev.jsonl", "musique_ans_v1.0_train.jsonl"]
FULL = [*ANS, "musique_full_v1.0_dev.jsonl"]
LONG = ["data/qasper.jsonl", "data/qasper_e.jsonl", "data/musique.jsonl", "data/2wikimqa.jsonl"]

GOOD = [
    (HOTPOT, {"split": "validation", "subset": "distractor"}, [HOTPOT[4]]),
    (HOTPOT, {"split": "train", "subset": "distractor"}, HOTPOT[2:4]),
    (ANS, {"split": "validation"}, [ANS[1]]),
    (ANS, {"split": "train"}, [ANS[2]]),
    (FULL, {"split": "validation", "patterns": ["*_ans_*_dev*"]}, [ANS[1]]),
    (FULL, {"split": "validation", "subset": "full"}, [FULL[3]]),
    (["rows.jsonl"], {"split": "validation"}, ["rows.jsonl"]),
    (["data/valid.json"], {"split": "validation"}, ["data/valid.json"]),
    (QASPER, {"split": "test"}, QASPER),
    (["README.md", "loader.py", "data.zip"], {"split": "test", "subset": "qasper"}, ["data.zip"]),
    (["rows.jsonl", "more.zip"], {"split": "test"}, ["rows.jsonl"]),
    (LONG, {"split": "test", "subset": "qasper"}, ["data/qasper.jsonl"]),
    (["__MACOSX/a.jsonl", "a.jsonl"], {"split": "test"}, ["a.jsonl"]),
    (["a/contest.jsonl"], {"split": "validation"}, ["a/contest.jsonl"]),
]


@pytest.mark.parametrize(("names", "wanted", "files"), GOOD)
def test_chosen(names, wanted, files):
    assert choose_files(names, shards_only="patterns" not in wanted, **wanted) == files


BAD = [
    (
        FULL,
        {"split": "validation"},
        "several files for split 'validation' (musique_ans_v1.0_dev.jsonl, musique_full",
    ),
    (HOTPOT, {"split": "validation"}, "several files for split 'validation' (distractor/"),
    (
        HOTPOT,
        {"split": "test", "subset": "distractor"},
        "no file for split 'test' among distractor/train-00000",
    ),
    (HOTPOT, {"split": "train", "subset": "wiki"}, "no file of subset 'wiki'"),
    (HOTPOT, {"split": "train", "patterns": ["*.csv"]}, "no file that matches *.csv"),
    (
        [],
        {"split": "train"},
        "has no data file (.jsonl, .json, .jsonl.gz, .json.gz, .parquet, .tsv, .dev, .train, .test",
    ),
    (["README.md", "loader.py"], {"split": "train"}, "are looked for) among README.md, loader.py"),
    (["a.jsonl", "b.json"], {"split": "train"}, "has files of several formats (a.jsonl, b.json)"),
    (["a.zip", "b.zip"], {"split": "train"}, "several archives (a.zip, b.zip)"),
    (LONG, {"split": "train"}, "several files for split 'train'"),
]


@pytest.mark.parametrize(("names", "wanted", "message"), BAD)
def test_refused(names, wanted, message):
    with pytest.raises(UnclearFiles) as caught:
        choose_files(names, shards_only=True, **wanted)
    assert message in str(caught.value)
