"""Rollouts in the registry: rows, events, and their readers."""
