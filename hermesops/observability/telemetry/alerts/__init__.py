"""Alerts and silences of the platform's Alertmanager, as operators see them."""
