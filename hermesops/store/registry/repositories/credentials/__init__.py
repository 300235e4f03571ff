"""Tokens, certificates and connections that were issued, and which of them count."""
