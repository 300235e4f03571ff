"""The ports of hermes-node on a simulated machine."""
