"""Installation archives for hosts without a package index, and the wheel of hermesops in them."""
