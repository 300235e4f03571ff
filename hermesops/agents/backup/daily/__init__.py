"""Daily backups of running instances: their schedule and execution."""
