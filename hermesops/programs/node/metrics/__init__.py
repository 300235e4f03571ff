"""``metrics``: what this machine knows of itself and its agent, as figures for Prometheus; no text of a user's."""
