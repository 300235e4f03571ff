"""The agent on a simulated machine: its gateway, its API, its log, its faults."""
