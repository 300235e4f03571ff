"""The fleet: instances, cells, machines and their health."""
