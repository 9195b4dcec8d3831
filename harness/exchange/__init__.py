"""Stored runs for others: bundles that anybody can verify without a model, and the logs of other harnesses."""
