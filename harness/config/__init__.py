"""Configurations: their schema, how values are resolved and where each came from, presets, suites,
the registry."""
