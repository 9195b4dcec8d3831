"""The conversion of a GGUF file in a process of its own: python -m tests.llm.slow_conversion
FILE."""

import sys
from pathlib import Path

from harness.llm.gguf import find_or_convert


def main():
    find_or_convert(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
