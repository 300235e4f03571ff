"""Identities, secrets, certificates and tokens."""
