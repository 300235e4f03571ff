"""Backups: encrypted, consistent copies of instances' state, kept in a bucket outside the vendor.

A machine may read its own repository and add to it; only the platform deletes from it.
"""
