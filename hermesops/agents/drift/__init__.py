"""What differs between stacks, registry, vendor and machines, and the command that repairs each difference.

Comparing is pure (``compare``); observing (``collect``, ``inspection``) changes nothing in the world.
"""
