"""Gates: what failures, health and hooks of others say of a rollout, and how much a gate can see."""
