"""Warm pools: machines that are ready before a user needs one."""
