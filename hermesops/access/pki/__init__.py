"""The environment's certificate authority: certificates of machines, services and callers, and keys of data volumes."""
