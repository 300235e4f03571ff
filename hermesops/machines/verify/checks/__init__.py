"""All checks of machines, for the machine and for its agent."""
