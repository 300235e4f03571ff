"""Proof of backups: a restore on this computer, compared with what was backed up."""
