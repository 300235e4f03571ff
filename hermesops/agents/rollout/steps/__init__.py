"""Steps of a rollout: observe, decide, do one, record it."""
