"""Rollouts, one release to many instances: plan batches, decide the next step (pure), and do it."""
