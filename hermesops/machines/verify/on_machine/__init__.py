"""Programs that run on the machine: sent as source with the command, standard library only, they change nothing."""

from pathlib import Path

PYTHON = ("python3", "-I", "-S", "-c")
"""How each is run: isolated, and without site-packages, whose import would cost more than the program."""

BATCH = Path(__file__).with_name("batch.py").read_text()
"""Runs many commands at once; see its docstring."""

OBSERVER = Path(__file__).with_name("observer.py").read_text()
"""Observes the gateway; see its docstring."""
