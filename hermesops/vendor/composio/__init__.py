"""Composio, which keeps users' tokens of services and carries out calls of their agents."""
