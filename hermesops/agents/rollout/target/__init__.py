"""One target of a rollout: its next step, carrying that out, and updating its row."""
