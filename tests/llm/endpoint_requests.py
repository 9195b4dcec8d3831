"""A request, a key and a retry policy of milliseconds."""

from __future__ import annotations

from harness.llm.endpoint_http import RetryPolicy

QUICK = RetryPolicy(timeout=0.4, retries=2, first=0.01, longest=0.02)
KEY = "sk-Very.Secret-0123456789"
BODY = {"model": "m", "messages": [{"role": "user", "content": "caf\u00e9?"}]}
