"""Rollouts: what each is, its targets, its events, and the releases and freezes that they mind."""
