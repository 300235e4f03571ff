"""Rollouts: rows, targets and events, and the releases and freezes that limit them."""
