"""Machines: unassigned ones, how each was last observed, what opens their volumes, their agents' health in figures."""
