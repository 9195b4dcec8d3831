"""Tests of the pocket world: its promises, its bytes, its data sets."""
