"""Named entities of a text: by rules, or by a library that is installed."""
