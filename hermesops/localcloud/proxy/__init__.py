"""Connections from outside to a port of a machine or to its daemon."""
