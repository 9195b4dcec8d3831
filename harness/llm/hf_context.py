"""The context of a network of transformers: its tokens, and the cache of their keys and values."""

from harness.cost.meter import Meter
from harness.llm.context import TokenContext
from harness.llm.hf_model import LoadedModel
from harness.llm.kv import rewind


class Context(TokenContext):
    """A context with the cache of its first `_cached` tokens."""

    _model: LoadedModel

    def __init__(self, model: LoadedModel, meter: Meter, role: str, adapter: str | None) -> None:
        super().__init__(model, meter, role, adapter)
        self._cache = model.pool.cache()

    def _truncate(self, length: int) -> None:
        """Remove all but the first `length` tokens from the context and from its cache."""
        super()._truncate(length)
        rewind(self._cache, self._cached)
