"""What the platform's monitoring is configured with: alert rules, routing of alerts, dashboards; read and checked.

The files are in ``roles/hermes_platform_monitoring``. Nothing here talks to Prometheus.
"""
