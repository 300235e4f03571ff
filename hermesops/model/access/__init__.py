"""Audit entries, certificates, tokens and signed files."""
