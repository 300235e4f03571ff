"""Requests of users that only workers may carry out: decided, done by existing requests, audited as the user."""
