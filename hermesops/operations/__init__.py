"""Operation rows driven to their end: observe, decide, do, record."""
