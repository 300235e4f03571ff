"""hermes-node: our program on each machine. Standard library only, so that a machine needs nothing but its own Python.

It imports nothing else of hermesops; ``node.protocol`` is the language the rest of hermesops speaks to it.
"""

VERSION = "1"
"""Raised when the program's behaviour changes; ``hermes-node status`` reports it."""
