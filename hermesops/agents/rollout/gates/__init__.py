"""Gates: whether failures, health and hooks let a rollout go on, and how much a gate can detect."""
