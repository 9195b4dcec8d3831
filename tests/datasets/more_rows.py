"""Made-up rows in the layouts of LoCoMo, BABILong, LV-Eval, LooGLE, L-Eval, NoLiMa, HELMET's
recall and MemoryAgentBench."""

from typing import Any


def locomo(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A conversation of LoCoMo of two sessions, with a question of each category."""
    first = [
        {"speaker": "Ann", "dia_id": "D1:1", "text": f"I painted mill {number}."},
        {"speaker": "Bo", "dia_id": "D1:2", "text": "Look!", "blip_caption": "a photo of a barn"},
    ]
    second = [{"speaker": "Ann", "dia_id": "D2:1", "text": "I sold it yesterday."}]
    conversation = {
        "speaker_a": "Ann",
        "speaker_b": "Bo",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": first,
        "session_2_date_time": "9:00 am on 2 June, 2023",
        "session_2": second,
        "session_3_date_time": "9:00 am on 3 June, 2023",
    }
    asked = [
        _asked("What did they show?", 1, ["D1:1; D1:2"], answer="a barn, the mill"),
        _asked("When did Ann sell it?", 2, ["D2:1"], answer=2023),
        _asked("Is Ann a painter?", 3, [], answer="Likely yes; she painted a mill"),
        _asked("What did Ann paint?", 4, ["D1:1"], answer="a mill"),
        _asked("What did Bo paint?", 5, ["D1:1"], adversarial_answer="a mill"),
    ]
    row = {"sample_id": f"conv-{number}", "conversation": conversation, "qa": asked}
    return {**row, **changes}


def _asked(question: str, category: int, evidence: list[str], **more: Any) -> dict[str, Any]:
    return {"question": question, "category": category, "evidence": evidence, **more}


def babilong(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A row of BABILong's qa1."""
    text = f"Mary went to the garden. It was a dark night of {number}. Mary went to the kitchen. "
    return {"input": text, "question": "Where is Mary? ", "target": "kitchen", **changes}


def lveval(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A row of LV-Eval in English."""
    asked = {"input": "Who built it?", "answers": ["Ada Toren", "Ada"], "answer_keywords": "Toren"}
    text = f"### Passage 1\nAda Toren built mill {number}."
    return {"context": text, "dataset": "hotpotwikiqa_mixup", "language": "en", **asked, **changes}


def loogle(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A text of LooGLE's shortdep_qa with two questions."""
    pairs = [
        {"Q": "Who built it?", "A": "Ada built it", "S": "Ada Toren built it."},
        {"Q": "Who left?", "A": "Bo left", "S": ["Bo left.", "Then it rained."]},
    ]
    text = f"Mill {number}. Ada Toren built it. Bo left."
    row = {"input": text, "title": "Mill", "qa_pairs": str(pairs), "output": "none"}
    return {**row, **changes}


def loogle_cloze(number: int = 1) -> dict[str, Any]:
    """A text of LooGLE's shortdep_cloze with one question."""
    answer = {"<mask-0>": "Ada Toren", "<mask-1>": "Bo"}
    pair = {"Q": "<mask-0> built it and <mask-1> left.", "A": answer}
    return loogle(number, qa_pairs=str([pair]))


def loogle_summary(number: int = 1) -> dict[str, Any]:
    """A paper of LooGLE's longdep_summarization."""
    return loogle(number, qa_pairs="none", output="A mill is built")


def leval(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A document of L-Eval with two questions."""
    asked = ["Question 1. Who built it?\nA. Ada\nB. Bo", "Question 2. Who left?\nA. Ada\nB. Bo"]
    row = {"input": f"Ada built mill {number}.", "instructions": asked, "outputs": ["A", "AB"]}
    return {**row, "source": "coursera_a", "evaluation": "exam", **changes}


def nolima(**changes: Any) -> dict[str, Any]:
    """A needle of NoLiMa with one question and one test."""
    needle = {
        "id": "0401",
        "needle": "Actually, {CHAR} lives next to {1}.",
        "character_set": ["Ann", "Bo", "Cy"],
        "questions": {"onehop": "Who has been to {2}?"},
        "tests": {"T1": {"input_args": ["the mill", "Kelford"]}},
    }
    return {**needle, **changes}


def nolima_book(lines: int = 1000) -> str:
    """A book of NoLiMa of that many short lines."""
    return "".join(f"It rained on day {day}.\n" for day in range(lines))


def json_kv(number: int = 1) -> dict[str, Any]:
    """A row of HELMET's json_kv."""
    demos = [["k1", "v1"], ["k2", "v2"], ["k3", "v3"]]
    text = f'{{"a{number}": "b{number}", "k1": "v1"}}'
    asked = {"question": f"a{number}", "answer": f"b{number}"}
    return {"context": text, **asked, "demos": demos, "num_kvs": 2}


def rerank(number: int = 1) -> dict[str, Any]:
    """A row of HELMET's re-ranking."""
    passages = [
        {"id": "3", "text": f"It rained on mill {number}.", "label": 0},
        {"id": "1", "text": f"Ada built mill {number}.", "label": 2},
        {"id": "2", "text": "Ada was born.", "label": 1},
    ]
    return {"qid": f"q{number}", "query": "Who built it?", "ctxs": passages}


def memoryagentbench(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A context of MemoryAgentBench with two questions."""
    row = {
        "context": f"0. Ada built mill {number}. 1. Bo built mill {number}.",
        "questions": ["Who built it?", "Who left?"],
        "answers": [["Bo", "Bo T."], ["Ada left"]],
        "metadata": {"source": "factconsolidation_mh_6k", "qa_pair_ids": ["a", "b"]},
    }
    return {**row, **changes}


def graphrag(count: int = 2) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The corpora and the first questions of GraphRAG-Bench, at most three."""
    corpora = [
        {"corpus_name": "Novel-1", "context": "Ada built the mill."},
        {"corpus_name": "Novel-2", "context": "Bo left."},
        {"corpus_name": "Novel-3", "context": "Cy came."},
    ]
    asked = {"question": "Who built it?", "answer": "Ada builds mills"}
    kinds = ("Fact Retrieval", "Complex Reasoning", "Contextual Summarize")
    questions = []
    for number, kind in enumerate(kinds[:count], start=1):
        name = f"Novel-{number}"
        questions.append({"id": f"{name}a", "source": name, "question_type": kind, **asked})
    return corpora[:count], questions


def pairs(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A question of OOLONG-Pairs on the users of `pairs_text`."""
    asked = f"In the above data, list all pairs of user IDs of kind {number}."
    row = {"id": str(number), "question": asked, "answer": ["(11, 22)", "(11, 33)"]}
    return {**row, "type": "list_of_answers", **changes}


def pairs_text(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A row of OOLONG-synth that is a text of OOLONG-Pairs."""
    lines = [f"Date: Jan 0{day}, 2023 || User: {day}{day} || Instance: Who?" for day in (1, 2, 3)]
    row = {"id": number, "dataset": "trec_coarse", "context_len": 32768, "question": "Which?"}
    return {**row, "context_window_text": "\n".join(lines), "answer": "['entity']", **changes}


def browsecomp_plus(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A decrypted row of BrowseComp-Plus, whose page of gold is evidence, too."""
    answer, also, other = (
        {"docid": f"{number}{name}", "text": text, "url": f"https://example.org/{name}"}
        for name, text in enumerate(("Ada built the mill.", "It was in 1719.", "Bo left."))
    )
    row = {"query_id": str(number), "query": "Who built it?", "answer": "Ada"}
    lists = {"gold_docs": [answer], "evidence_docs": [answer, also], "negative_docs": [other]}
    return {**row, **lists, **changes}


def beam(number: int = 1, **changes: Any) -> dict[str, Any]:
    """A conversation of BEAM in two sessions, with a question of two of its kinds."""
    first = [
        {"id": 0, "role": "user", "content": f"Sprint {number} ends on May 3.", "index": "1,1"},
        {"id": 1, "role": "assistant", "content": "Noted."},
    ]
    second = [{"id": 2, "role": "user", "content": "It ends on May 9 now."}]
    update = {
        "question": "When does it end?",
        "answer": "May 9",
        "source_chat_ids": {"original_info": [0], "updated_info": [2]},
        "rubric": ["LLM response should state: May 9"],
    }
    format_asked = {
        "question": "Which libraries?",
        "expected_compliance": "Versions are named.",
        "source_chat_ids": [1],
        "rubric": ["LLM response should contain: versions", "LLM response should be short"],
    }
    asked = {"knowledge_update": [update], "instruction_following": [format_asked]}
    row = {"conversation_id": str(number), "chat": [first, second]}
    return {**row, "probing_questions": str(asked), **changes}


def alce_asqa(number: int = 1) -> dict[str, Any]:
    """A row of HELMET's ALCE ASQA."""
    pairs = [{"short_answers": ["Ada", "A. T."]}, {"short_answers": [f"mill {number}"]}]
    passages = [
        {"title": "Mill", "text": f"Ada built mill {number}."},
        {"title": "Bo", "text": "B"},
    ]
    return {"question": "Who built what?", "qa_pairs": pairs, "docs": passages}


def alce_qampari(number: int = 1) -> dict[str, Any]:
    """A row of HELMET's ALCE QAMPARI."""
    passages = [{"title": "Mill", "text": f"Ada built mill {number}."}]
    return {"question": "Who builds?", "answers": [["Ada"], ["Bo", "B."]], "docs": passages}


LOOGLE = {
    "shortdep_qa": loogle,
    "longdep_qa": loogle,
    "shortdep_cloze": loogle_cloze,
    "longdep_summarization": loogle_summary,
}
LVEVAL = (
    "hotpotwikiqa_mixup",
    "loogle_SD_mixup",
    "loogle_CR_mixup",
    "loogle_MIR_mixup",
    "multifieldqa_en_mixup",
    "multifieldqa_zh_mixup",
    "factrecall_en",
    "factrecall_zh",
    "cmrc_mixup",
    "lic_mixup",
    "dureader_mixup",
)
LEVAL = {
    "coursera": "leval.options",
    "tpo": "leval.option",
    "quality": "leval.option",
    "topic_retrieval_longchat": "leval.contains",
    "gsm100": "leval.number",
    "codeU": "leval.output",
    "sci_fi": "leval.loyalty",
    **dict.fromkeys(("financial_qa", "legal_contract_qa", "multidoc_qa"), "leval.f1"),
    **dict.fromkeys(("natural_question", "scientific_qa", "narrative_qa"), "leval.f1"),
    **dict.fromkeys(("gov_report_summ", "meeting_summ", "news_summ"), "rouge_score.rougeL"),
    **dict.fromkeys(("paper_assistant", "patent_summ", "review_summ"), "rouge_score.rougeL"),
    "tv_show_summ": "rouge_score.rougeL",
}
"""Task of L-Eval -> its headline."""
MEMORY = {
    "factconsolidation": ("Conflict_Resolution", 10, "helmet.substring_exact_match"),
    "ruler_qa": ("Accurate_Retrieval", 50, "helmet.substring_exact_match"),
    "eventqa": ("Accurate_Retrieval", 40, "memoryagentbench.events"),
    "icl": ("Test_Time_Learning", 20, "memoryagentbench.parsed_match"),
    "detective_qa": ("Long_Range_Understanding", 2000, "helmet.substring_exact_match"),
}
"""Set of MemoryAgentBench -> its file, cap and headline."""
