"""Releases: what runs on instances, locked, signed and stored.

It reaches other packages through its ``ports``, and decides nothing about instances.
"""

from hermesops.release.releases import Kept, Releases

__all__ = ["Kept", "Releases"]
