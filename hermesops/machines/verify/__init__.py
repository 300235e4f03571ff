"""Checks, which change nothing: of machines what the roles promise, of this computer what hermesops needs."""
