"""What is signed or written down about releases, parsed and checked. Pure."""
