"""Shapes of results: what JSON and tables are made from."""
