"""The context of a network of transformers: its tokens, and the cache of their keys and values."""

from harness.cost.meter import Meter
from harness.llm.context import TokenContext
from harness.llm.hf_model import LoadedModel
from harness.llm.kv import rewind


class Context(TokenContext):
    """A context of a network of transformers: its tokens, and the cache of the first `_n_cached` of
    them, which the network has run."""

    _model: LoadedModel

    def __init__(self, model: LoadedModel, meter: Meter, role: str, adapter: str | None) -> None:
        """Begin an empty context with a cache in the model's pool.

        Args:
            model: The model.
            meter: Counts the costs.
            role: The role that they are counted under.
            adapter: The adapter that is switched on; None for none.
        """
        super().__init__(model, meter, role, adapter)
        self._cache = model.pool.new_cache()

    def _truncate(self, n_tokens: int) -> None:
        """Remove all but the first `n_tokens` tokens from the context and from its cache."""
        super()._truncate(n_tokens)
        rewind(self._cache, self._n_cached)
