"""Machines: unassigned ones, last observations, keys of data volumes, health samples of agents."""
