"""Builds a release: resolves packages, gathers their files, locks and signs them."""
