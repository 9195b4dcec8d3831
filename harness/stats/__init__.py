"""Statistics: intervals over documents, paired tests by sign flips, and reproducible random
draws."""

INTERVAL_RULE = "4"
"""Version of the rule by which intervals are made. It is raised whenever the same values get
another interval; summaries and bundles record it, so that a change of the rule is not taken for an
edit."""

OLDER_RULES = (None, "1", "2", "3")
"""The rules before it; None: of versions that recorded none."""
