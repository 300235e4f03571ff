"""What differs between stacks, registry, vendor and machines, and the command that repairs each difference.

Comparing is pure (``compare``); looking (``survey``) changes nothing in the world.
"""
