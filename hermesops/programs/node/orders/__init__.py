"""Orders of the platform, which the machine asks for: where its metrics and logs go, and who may log in by SSH now."""
