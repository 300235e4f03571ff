"""hermes-node: our program on each machine. Standard library only, so that a machine needs nothing but its own Python.

Of hermesops it imports only ``wire``; ``wire.protocol`` defines the messages that both sides exchange.
"""

VERSION = "1"
"""Raised when the program's behaviour changes; ``hermes-node status`` reports it."""
