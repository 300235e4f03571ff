"""Messengers: each verifies what comes from it, reads it, and sends to it."""
