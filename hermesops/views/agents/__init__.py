"""Shapes of agents: instances, their backups, costs and rollouts."""
