"""What planning a run finds: mistakes, which are raised all at once, and warnings."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.errors import HarnessError, Missing, UserError, raise_all


@dataclass
class Findings:
    """Mistakes and warnings of one plan.

    Attributes:
        problems: The mistakes.
        warnings: A sentence each.
        missing: What only this machine lacks, "weights of owner/name"; no mistake in a plan for
            another machine.
    """

    problems: list[HarnessError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def add_problem(self, sentence: str) -> None:
        """Add a mistake, as a UserError with this sentence."""
        self.problems.append(UserError(sentence))

    def raise_problems(self) -> None:
        """Raise the mistakes found so far: UserError for one, ConfigError for several; nothing for
        none."""
        raise_all(self.problems)

    def move_missing_out_of_problems(self) -> None:
        """Take the problems that are only about things missing on this machine out of `problems`,
        and put what is missing into `missing`."""
        others: list[HarnessError] = []
        for problem in self.problems:
            if isinstance(problem, Missing):
                self.missing.append(problem.thing)
            else:
                others.append(problem)
        self.problems = others
