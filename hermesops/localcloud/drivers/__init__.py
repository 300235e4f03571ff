"""What runs the machines: the interface, and one package for each driver."""
