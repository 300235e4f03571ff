"""Metrics of the monitor: heartbeats that it reads, figures of the fleet, and what it pushes."""
