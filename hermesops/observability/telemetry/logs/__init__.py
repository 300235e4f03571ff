"""Logs of instances: lines out of Loki or off the machine, once or followed."""
