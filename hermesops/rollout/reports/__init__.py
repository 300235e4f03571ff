"""A rollout in words and figures: its progress, its decisions explained, other gates replayed."""
