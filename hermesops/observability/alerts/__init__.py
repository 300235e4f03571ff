"""Configuration of the platform's monitoring: reads and checks alert rules, alert routing and dashboards.

The files are in ``roles/hermes_platform_monitoring``. Nothing here talks to Prometheus.
"""
