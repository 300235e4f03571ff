"""Metering: usage of agents in a ledger, and its events at Stripe."""
