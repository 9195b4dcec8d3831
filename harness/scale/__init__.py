"""A run spread over processes and machines: shards, their merge, and the engines that start them
(docs/scaling.md)."""
