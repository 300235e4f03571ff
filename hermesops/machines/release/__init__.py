"""Releases: what runs on instances, locked, signed and stored.

It reaches other packages through its ``ports``, and decides nothing about instances.
"""

from hermesops.machines.release.releases import OF_IMAGE, Kept, Releases

__all__ = ["OF_IMAGE", "Kept", "Releases"]
