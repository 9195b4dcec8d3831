"""Methods: one file a family."""
