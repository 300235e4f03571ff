"""Data that brings an instance back: backups, states and recovery records."""
