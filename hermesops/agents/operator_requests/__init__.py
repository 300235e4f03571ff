"""Requests of the served console's operators: rows that workers verify and carry out by the commands' requests."""
