"""The releases of single machines: transferred, rolled back, and rehearsed before an upgrade."""
