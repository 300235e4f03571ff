"""Disks of real machines: the base image, the layers above it, files of a first boot, data volumes."""
