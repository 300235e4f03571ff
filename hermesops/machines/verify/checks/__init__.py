"""Checks of machines: what a check is, and all of them, for machine and agent."""
