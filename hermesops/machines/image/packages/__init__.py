"""Packages of Python from the package index of this computer, and what images take out of them."""
