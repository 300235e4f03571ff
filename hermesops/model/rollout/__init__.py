"""Data of rollouts and releases: specifications, targets, states and locks."""
