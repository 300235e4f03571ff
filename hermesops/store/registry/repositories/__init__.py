"""Reads and writes of the tables, one module a subject."""
