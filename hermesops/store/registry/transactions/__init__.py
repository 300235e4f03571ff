"""Changes of several tables that happen together or not at all."""
