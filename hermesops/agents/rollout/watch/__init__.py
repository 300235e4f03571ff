"""Sources of a rollout's observations, health and open alerts, and receivers of its messages."""
