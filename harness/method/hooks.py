"""What a method may say of itself beside indexing and answering; each hook has a default, and none
changes an answer.

skills, adapters, training      the requests it makes of a model, and what `harness train` trains for it (training.py)
from_other_runs                 which of its numbers a finished run can give
stop_rule, replay               its stopping rule, for curves that replay a search
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from harness.errors import UserError
from harness.types import Question

if TYPE_CHECKING:
    import numpy as np

    from harness.method.tools import Tools
    from harness.method.training import AdapterUse, Skill, TrainingTask


class MethodHooks:
    """Base of Method: hooks with defaults.

    without_adapters how to run without `adapters`: the hint at the end of the error that a model
                     lacks them
    heads_field      config field that names a list of attention heads, or "all"; "" for none (bench/heads.py)
    from_other_runs  config field -> what is counted, for numbers that a finished run can give
                     (method.k=from:RUN_FOLDER): "nodes" that its search visited, or the config field with the
                     tokens of a piece, of which as many are taken as cost the same to read
    """

    without_adapters: ClassVar[str] = ""
    heads_field: ClassVar[str] = ""
    from_other_runs: Mapping[str, str] = {}

    def model_problems(self, role: str, window: int, sizes: Mapping[str, Any]) -> list[str]:
        """Sentences that say why the method cannot run with the model of `role`, found without
        loading it.

        window: tokens; sizes: those in its config.json, and "weights" -> what identifies them; {}
        where unknown.
        """
        return []

    def head_scores(self, question: Question, texts: Sequence[str], tools: Tools) -> np.ndarray:
        """Scores [texts, layers, heads] of each attention head alone, for a method with a
        `heads_field`."""
        raise UserError(f"{type(self).__name__} uses no list of attention heads")

    def skills(self) -> list[Skill]:
        """The kinds of request that this method makes of a model."""
        return []

    def adapters(self) -> dict[str, dict[str, AdapterUse]]:
        """Role -> {task: the adapter of the role's model that is switched on for it}."""
        return {}

    def training(self) -> Sequence[TrainingTask]:
        """How `harness train` trains each adapter of this method; () if it trains none."""
        return ()

    def stop_rule(self) -> dict[str, Any]:
        """The parameters of the search's stopping rule that `replay` can vary: {"t_n": 1, "t_p":
        0.5}; {} for none."""
        return {}

    def recorded_rule(self) -> dict[str, Any]:
        """The stopping rule, as in `stop_rule`, at which recorded searches end; `replay` cannot go
        beyond it."""
        return self.stop_rule()

    def replay(self, steps: Sequence[Mapping[str, Any]], **rule: Any) -> int | None:
        """The index in a record's `steps` at which its search would have stopped by another
        stopping rule.

        rule: values for the names of `stop_rule`. None if the search was not recorded that far.
        Raises UserError for a method without a stopping rule.
        """
        raise UserError(
            f"{type(self).__name__} has no stop rule that can be replayed: its stop_rule() is empty"
        )
