"""Releases on a machine: fetched, tried, activated, confirmed, rolled back."""
