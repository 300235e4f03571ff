"""Pulumi: engines, programs of stacks, and the provider for JustAVPS."""
