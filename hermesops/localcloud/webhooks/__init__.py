"""Webhooks: their handlers, what they carry, how they are delivered."""
