"""Agents on their machines: provisioning, pools, cells, health, backups, rollouts, drift and the relay."""
