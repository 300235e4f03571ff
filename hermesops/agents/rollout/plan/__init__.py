"""A rollout before it starts: request, spec, targets, batches, windows, preview."""
