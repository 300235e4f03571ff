"""What commands and workers call: rules of the packages, applied with the registry, the vendor and machines."""
