"""Differences between stacks, registry, vendor and machines, and the command that repairs each.

Comparing is pure (``compare``); observing (``collect``, ``inspection``) changes nothing in the world.
"""
