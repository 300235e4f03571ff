"""Metrics, logs, alerts and the runbooks that end them."""
