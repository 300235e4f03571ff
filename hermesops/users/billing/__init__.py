"""Stripe's events about subscriptions, and the operations that they request for users' agents."""
