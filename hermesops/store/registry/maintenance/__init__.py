"""What keeps the registry itself safe: copies, restoring, recovery, checks, epochs."""
