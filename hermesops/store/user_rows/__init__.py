"""Rows of the users' half, each group a class over the database alone: no key of the registry is needed for them."""
