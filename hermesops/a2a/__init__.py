"""The A2A protocol: users' agents as agents of others call them. Parses, calls services as the key's caller, renders.

Source: A2A specification 1.0, and a2a-sdk 1.3.0, whose routes also serve callers of 0.3.
"""
