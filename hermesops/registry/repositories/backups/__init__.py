"""Backups of instances: those of living ones, those of terminated ones, and how near plans are to their limit."""
