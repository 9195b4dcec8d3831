"""Known forms of requests and replies of retrievers, by name.

    FORMATS["elasticsearch"].map      {"hits": "hits.hits", "page": "_source.page || ...", ...}

"hits" is the place of the list in a reply, the others are places in each of its entries, all in
JMESPath. A body is a jinja2 template with the variables query, k and vector; one that has `vector`
needs the run's encoder. Both can be replaced: --retriever-body FILE, --retriever-map text=PATH.

The shapes follow these pages:
elasticsearch  https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-search and
               https://docs.opensearch.org/latest/api-reference/search-apis/search/: `hits.hits[]`
               with `_id`, `_score` and the document as `_source`; a multi_match query without
               fields asks those of index.query.default_field, all by default
qdrant         https://api.qdrant.tech/api-reference/search/query-points: `result.points[]` with
               `id`, `score` and `payload`, which is sent only with `with_payload`
"""

from harness.apps.formats import Format

FIELDS = ("hits", "page", "text", "score")
"""What is read from a reply; of page and text one may be missing, and the score."""


_JSON = Format(
    summary="a plain JSON: {query, k} -> [{page, text, score}]",
    body='{"query": {{ query | tojson }}, "k": {{ k }}}',
    map={
        "hits": "not_null(hits, results, @)",
        "page": "page || id",
        "text": "text",
        "score": "score",
    },
)
_ELASTICSEARCH = Format(
    summary="_search of Elasticsearch and OpenSearch, by words in all fields",
    body='{"size": {{ k }}, "query": {"multi_match": {"query": {{ query | tojson }}}}}',
    map={
        "hits": "hits.hits",
        "page": "_source.page || _source.source || _source.metadata.source || _id",
        "text": "_source.text || _source.content || _source.page_content || _source.body",
        "score": "_score",
    },
)
_QDRANT = Format(
    summary="points/query of Qdrant, by the vector of the run's encoder",
    body='{"query": {{ vector | tojson }}, "limit": {{ k }}, "with_payload": true}',
    map={
        "hits": "result.points",
        "page": "payload.page || payload.source || payload.metadata.source || id",
        "text": "payload.text || payload.content || payload.page_content || payload.document",
        "score": "score",
    },
)
FORMATS = {"json": _JSON, "elasticsearch": _ELASTICSEARCH, "qdrant": _QDRANT}
