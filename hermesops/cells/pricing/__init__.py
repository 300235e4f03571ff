"""What machines cost a month: asked of the vendor, and summed."""
