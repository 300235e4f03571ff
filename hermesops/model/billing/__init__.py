"""Billing events, model routes and the use of models."""
