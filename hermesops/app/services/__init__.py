"""What commands and workers call: each composes its part of the rules with the registry, the vendor and machines."""
