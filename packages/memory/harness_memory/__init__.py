"""Memory systems of other packages as methods (docs/methods/memory.md)."""
