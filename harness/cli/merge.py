"""`harness merge RUN...`: merge the shards of run folders; the last shard does so by itself when it
ends."""

import json as json_

from harness.cli.options import Json, Runs
from harness.cli.output import say
from harness.scale.merge import merge as merge_shards
from harness.storage.named_runs import run_folders


def merge(runs: Runs, json: Json = False) -> int:
    """Merge the shards of runs (run --shard) that are not merged yet.

    The last shard of `harness run --shard K/N` merges all by itself. This command merges what there
    is when a shard was lost for good, or before the run is divided in another way; what is left is
    then answered by any harness run.
    """
    for folder in run_folders(runs):
        summary = merge_shards(folder, say)
        if json:
            print(json_.dumps({"run": str(folder), "summary": summary.to_json()}))
        else:
            print(f"{folder}: {summary.n_total or 0} questions, {summary.n_failed or 0} failed")
    return 0
