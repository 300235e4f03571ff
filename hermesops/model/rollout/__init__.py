"""Rollouts and releases."""
