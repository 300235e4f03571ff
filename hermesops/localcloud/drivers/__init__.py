"""The drivers that run machines: their interface, and one package for each."""
