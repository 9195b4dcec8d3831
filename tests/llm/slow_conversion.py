"""The conversion of a GGUF file in a process of its own: python -m tests.llm.slow_conversion FILE."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.llm.gguf import converted


def main() -> None:
    converted(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
