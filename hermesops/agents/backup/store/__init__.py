"""The bucket as the platform uses it: its API, each instance's keys and rights in it, and its contents."""
