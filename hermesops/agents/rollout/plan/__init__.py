"""A rollout before it starts: the request, its targets and batches, when it may run, what it is refused for."""
