"""Operators' requests about instances: checked, then written as operations."""
