"""Figures of instances and of the fleet, asked of the platform's Prometheus."""
