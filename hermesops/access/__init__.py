"""Keys, secrets and tokens: who may reach what, and for how long."""
