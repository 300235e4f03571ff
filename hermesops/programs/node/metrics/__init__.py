"""``metrics``: figures of this machine and its agent for Prometheus, without any text of a user."""
