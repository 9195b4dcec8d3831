"""Stored runs for others: bundles that anybody can verify without a model."""
