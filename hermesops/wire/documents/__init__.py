"""Signed and stored documents about releases, parsed and checked. Pure."""
