"""Connections of agents to services, such as a user's mailbox."""
