"""Checks of this computer and of the environment."""
