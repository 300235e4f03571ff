"""Certificates and tokens of instances: issued, renewed, revoked."""
