"""Faults of the vendor, on order: which kinds there are, when each strikes, how a call shows it."""
