"""vLLM in this process, as a back end of language models (docs/scaling.md#vllm)."""
