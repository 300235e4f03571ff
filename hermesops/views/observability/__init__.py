"""Shapes of observability: alerts, figures, runbooks and drills."""
