"""A program that runs a command and reports which heavy packages it imported."""

HEAVY = ("torch", "transformers", "datasets", "mlflow", "pandas", "matplotlib", "sentence_transformers", "scipy")
REPORT = f"""
import sys
from harness.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as e:
    code = e.code
loaded = [m for m in {HEAVY!r} if m in sys.modules]
sys.stderr.write(f"LOADED {{loaded}} {{code}}")
"""
