"""Accounts of instances: the budget that is left, what open requests reserve, and usage on its way to the registry."""
