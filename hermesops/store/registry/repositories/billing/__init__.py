"""Rows of billing: Stripe's events, and subscriptions."""
