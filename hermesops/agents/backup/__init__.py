"""Backups: encrypted, consistent copies of instances' state, kept in a bucket outside the vendor.

A machine may read its own repository and add to it; what is taken away from there is taken away by the platform.
"""
