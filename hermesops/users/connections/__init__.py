"""Connections of users' agents to services: links, their upkeep, and the way of an agent's calls to them."""
