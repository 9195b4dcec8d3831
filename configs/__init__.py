"""Presets: YAML files found by name."""
