"""Shapes of automation: checks, environments, jobs and the monitor."""
