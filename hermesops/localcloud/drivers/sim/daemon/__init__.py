"""The vendor's daemon of all simulated machines."""
