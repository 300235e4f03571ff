"""Previews of changes: the steps, downtime, costs and losses of an operation that is not opened."""
