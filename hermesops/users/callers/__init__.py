"""Agents of others that call a user's agent: their keys, their tasks as turns of the user, and notifications."""
