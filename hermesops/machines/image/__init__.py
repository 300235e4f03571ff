"""Builds, verifies and publishes the images that machines boot from.

It gets Ansible and the checks as callables, and decides nothing about instances.
"""
