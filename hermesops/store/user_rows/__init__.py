"""Rows that the users' API reads and writes, with a database role and a key ring of its own; no registry is opened."""
