"""Applications of the user's own, evaluated beside methods (docs/applications.md)."""
