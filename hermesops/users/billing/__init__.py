"""Stripe's events about subscriptions, and what they ask for of a user's agent."""
