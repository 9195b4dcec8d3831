"""What the command line says of replies with and without the prefix that the data set asks for."""

import json

ROW = ["run", "--method", "echo", "--dataset", "pocket/musique", "--limit", "2", "--mlflow", "off"]
ASKED = ["--set", "dataset.answer_prefix=Answer:", "--set"]


def test_replies_without_it_are_counted_where_the_result_is_printed(here):
    done = here(*ROW, *ASKED, "method.word=echo")
    assert done.returncode == 0, done.stderr
    last = done.stdout.rstrip().splitlines()[-1]
    assert last == "  2 questions, 0 failed, 2 replies without the answer prefix, scored whole"
    assert "2 of 2 replies lacked the answer prefix 'Answer:' and were scored whole" in here("report", "results").stdout
    plain = here(*ROW)
    assert plain.stdout.rstrip().splitlines()[-1] == "  2 questions, 0 failed"


def test_a_trace_shows_the_reply_and_what_was_scored(here, tmp_path):
    done = here(*ROW, *ASKED, "method.word=Two towns. Answer: Mira", "--json")
    told = json.loads(done.stdout)
    assert told["summary"]["n_without_prefix"] == 0
    first = json.loads((tmp_path / told["run"] / "records.jsonl").read_text().splitlines()[0])
    lines = here("trace", told["run"], first["question_id"]).stdout.splitlines()
    assert [line for line in lines if line.startswith(("answer ", "scored "))] == [
        "answer     Two towns. Answer: Mira",
        "scored     Mira",
    ]
