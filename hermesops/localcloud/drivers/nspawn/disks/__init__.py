"""Disks of real machines: the base image, the layers above it, what is written into them, data volumes."""
