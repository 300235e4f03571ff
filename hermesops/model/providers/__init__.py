"""Model providers whose keys users may bring for their own agents."""
