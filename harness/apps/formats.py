"""Known forms of requests and replies, by name: what is sent, and where a reply has what.

    FORMATS["json"].body          '{"question": {{ question | tojson }}}'
    FORMATS["json"].map["answer"] "answer"

A body is a jinja2 template; its variables are the fields of AppQuestion. A place is a JMESPath
expression. Both can be replaced: --app-body FILE, --app-map answer=PATH.

The shapes follow these pages:
openai-chat       https://platform.openai.com/docs/api-reference/chat/object: the message has
                  `content` or `refusal`, and `annotations` with `url_citation`;
                  https://learn.microsoft.com/azure/ai-services/openai/references/on-your-data:
                  `message.context.citations` with `content` and, of each, some of `filepath`, `url`
                  and `title`; some other servers have a list of addresses at `citations`
openai-responses  https://platform.openai.com/docs/api-reference/responses/object: parts of a message
                  are `output_text` with `annotations` (file_citation: filename, url_citation: url)
                  or `refusal`; the `results` of a file_search_call are sent only where the request
                  has "include": ["file_search_call.results"]. No annotation is the same as a reply
                  that names no source, so it is unknown
langserve         https://github.com/langchain-ai/langserve (its validation module): `output` of /invoke, and
                  documents as LangChain writes them, with `page_content` and `metadata`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

FIELDS = ("answer", "sources", "contexts", "tokens_in", "tokens_out", "tokens", "cost")
"""What is read from a reply; all but the answer may be missing. tokens: read and written together,
where they are not told apart."""


@dataclass(frozen=True)
class Format:
    """One form of requests and replies.

    Attributes:
        summary: A line for the documentation.
        body: The jinja2 template of a request.
        map: Field of a reply -> its place, in JMESPath.
    """

    summary: str
    body: str
    map: Mapping[str, str]


_JSON = Format(
    summary="a plain JSON: {question} -> {answer, sources, contexts, tokens, cost}, or a text",
    body='{"question": {{ question | tojson }}}',
    map={
        "answer": "answer",
        "sources": "sources",
        "contexts": "contexts",
        "tokens_in": "tokens.input",
        "tokens_out": "tokens.output",
        "tokens": "to_number(tokens)",
        "cost": "cost",
    },
)
_CHAT = Format(
    summary="OpenAI-style chat completions; the application's name is sent as the model",
    body=(
        '{"model": {{ name | tojson }},'
        ' "messages": [{"role": "user", "content": {{ question | tojson }}}]}'
    ),
    map={
        "answer": "choices[0].message.content || choices[0].message.refusal",
        "sources": (
            "choices[0].message.annotations[].url_citation.url"
            " || choices[0].message.context.citations[].[filepath || url || title][]"
            " || citations"
        ),
        "contexts": "choices[0].message.context.citations[].content",
        "tokens_in": "usage.prompt_tokens",
        "tokens_out": "usage.completion_tokens",
        "cost": "usage.cost",
    },
)
_RESPONSES = Format(
    summary="OpenAI-style responses; the application's name is sent as the model",
    body='{"model": {{ name | tojson }}, "input": {{ question | tojson }}}',
    map={
        "answer": (
            "output[?type=='message']"
            " && join('', output[?type=='message'].content[].[text || refusal][])"
        ),
        "sources": "output[?type=='message'].content[].annotations[].[filename || url][] || `null`",
        "contexts": "output[?type=='file_search_call'].results[].text || `null`",
        "tokens_in": "usage.input_tokens",
        "tokens_out": "usage.output_tokens",
        "cost": "usage.cost",
    },
)
_LANGSERVE = Format(
    summary="LangServe's /invoke: a text, a message, or a chain's {answer, context}",
    body='{"input": {{ question | tojson }}}',
    map={
        "answer": "output.answer || output.result || output.content || output",
        "sources": "output.[context, source_documents][][].metadata.source || `null`",
        "contexts": "output.[context, source_documents][][].page_content || `null`",
        "tokens_in": "output.usage_metadata.input_tokens",
        "tokens_out": "output.usage_metadata.output_tokens",
        "cost": "cost",
    },
)
FORMATS = {
    "json": _JSON,
    "openai-chat": _CHAT,
    "openai-responses": _RESPONSES,
    "langserve": _LANGSERVE,
}
