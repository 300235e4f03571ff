"""Maintenance of the registry: copies, restore, recovery, checks, epochs."""
