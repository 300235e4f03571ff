"""Drills of runbooks: each fault is made on a machine of the warm pool, and its runbook ends it."""
