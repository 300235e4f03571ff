"""hermesops: a personal hermes-agent for every user, on a machine of their own, kept alive."""

__version__ = "0.1.0"
