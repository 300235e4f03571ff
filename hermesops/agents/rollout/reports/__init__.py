"""A rollout in words and figures: its progress, its events explained, its record under other gates."""
