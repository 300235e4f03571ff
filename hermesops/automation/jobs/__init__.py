"""Scheduled jobs: work that becomes due without an operator, done by the first worker that finds it."""
