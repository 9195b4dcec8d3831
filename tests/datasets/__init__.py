"""Tests of the data sets: rows, files, folders, the hub, the shipped presets."""
