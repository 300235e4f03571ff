"""Checks that this computer and this environment have what hermesops needs."""
