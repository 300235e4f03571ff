"""Composio's part of the local world."""
