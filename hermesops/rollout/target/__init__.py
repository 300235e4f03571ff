"""One target of a rollout: what is next for it, what follows for its row, and doing it."""
