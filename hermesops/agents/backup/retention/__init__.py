"""Retention of backups: the rules, and the deletion of backups that no rule keeps."""
