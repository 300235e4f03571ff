"""Builds, verifies and publishes the images that machines boot from.

It meets Ansible and the checks through Protocols of its own (``ports``), and decides nothing about instances.
"""
