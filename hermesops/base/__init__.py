"""Modules without a noun of the fleet: processes, waiting, files and connections."""
