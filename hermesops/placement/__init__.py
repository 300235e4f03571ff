"""Which machine for whom: cells and how they grow."""
