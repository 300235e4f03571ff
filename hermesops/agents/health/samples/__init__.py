"""Samples of the health of instances: taken from their nodes, and kept in the registry."""
