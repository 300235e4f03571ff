"""Shapes of access: the audit log, certificates, secrets and tokens."""
