"""Releases: what runs on instances, locked, gathered, signed and stored.

It meets the package index, images and keys through Protocols of its own (``ports``), and decides nothing about
instances.
"""

from hermesops.release.releases import Kept, Releases

__all__ = ["Kept", "Releases"]
