"""Watches heartbeats, and brings up machines that are proved dead, within limits."""
