"""What is read from and written to the tables, one module for each thing that the registry knows."""
