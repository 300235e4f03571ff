"""Scheduled jobs: what falls due without an operator, done by the first worker that sees them."""
