"""Reads and changes an instance's machine: hermes-node, gateway, releases, data volume, power."""
