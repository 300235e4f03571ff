"""State of the users' API as operators see it."""
