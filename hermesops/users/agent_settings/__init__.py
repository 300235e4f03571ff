"""Settings that users may change of their own agents: fewer than operators may."""
