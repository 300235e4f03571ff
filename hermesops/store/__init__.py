"""The registry and the operations that are recorded in it."""
