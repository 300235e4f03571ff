"""Checks: of this computer, and of machines by testinfra over a channel."""
