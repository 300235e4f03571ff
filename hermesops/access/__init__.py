"""Access to an environment: operators' identities, secrets, certificates, tokens, and the registry's place."""
