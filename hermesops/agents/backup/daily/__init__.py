"""Daily backups: whose turn has come, and their making."""
