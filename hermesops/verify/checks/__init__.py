"""Checks of machines: what a check is, and all of them, for the machine, the agent and its data."""
