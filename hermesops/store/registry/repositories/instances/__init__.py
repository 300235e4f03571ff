"""Instances: their rows, their settings and secrets, their policies, all of them at once."""
