"""Output of ``hermesops fleet`` and ``hermesops registry rebuild``: JSON objects, and lines for people."""

NAMED = 10
"""Instances named in lines for people; JSON names all."""
