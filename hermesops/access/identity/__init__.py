"""Operators and pipelines: identities, signatures, approvals, and the record of access to users' agents."""
