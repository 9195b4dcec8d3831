"""The commands that this package adds to `harness`."""

from harness.cli.command import Commands

_TABLE = {
    "Run methods": {
        "duel": "Run methods in step and stop when the comparison is settled",
    },
    "Report stored runs": {
        "report bands": "Show stored answers under every scorer that applies",
        "report memory": "Compare each run with the same run over an entity-swapped copy",
        "report stability": "Show whether the ranking survives every scorer, judge, judge prompt and draw of questions",
        "audit-data": "List gold answers that are probably wrong or ambiguous, from stored runs and the data",
        "autopsy": "Say why each lost question was lost, from stored runs",
    },
    "Study stored runs": {
        "study position": "Plot the score by where the evidence stands in the text",
        "study length": "Plot the score, and how often the answer was shown, by the length of the documents",
        "study trials": "Plot score and requests by the maximum number of trials",
        "study requests": "Plot the score by the number of requests per question",
    },
    "Share runs": {
        "export": "Write runs into one file that others can verify",
        "import": "Turn results of other harnesses into run folders",
        "push": "Push a bundle to the Hugging Face hub as a data set repository",
        "verify": "Check a bundle without a model",
    },
}
COMMANDS = Commands(_TABLE, "harness_audit.cli")
