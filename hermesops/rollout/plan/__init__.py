"""A rollout before it starts: who, in which order and batches, when, and how much could break."""
