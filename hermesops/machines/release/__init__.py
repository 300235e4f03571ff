"""Releases: the software of instances, locked, signed and stored.

It decides nothing about instances.
"""

from hermesops.machines.release.releases import OF_IMAGE, Kept, Releases

__all__ = ["OF_IMAGE", "Kept", "Releases"]
