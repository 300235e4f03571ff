"""The keys that encrypt secrets in the registry, and their rotation."""
