"""Proof of backups: a restore on this computer, compared with the recorded state."""
