"""Machines that are records: the driver ``sim``, for worlds of ten to a hundred thousand.

Each runs the real hermes-node over files, units and an agent's API that are rows of one SQLite file.
"""
