"""Data that crosses packages: frozen dataclasses, enums and ids.

Pure: no clock, no network, no file, no database.
"""
