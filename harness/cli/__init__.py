"""The command line: main.py, and one module per command."""
