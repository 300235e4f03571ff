"""Scheduled jobs: what falls due without an operator, done by whichever worker looks first."""
