"""Rows of agents that call users' agents: their keys, their tasks, and the addresses that are notified."""
