"""The resources of this computer that real machines use: control groups, network, the system's own tools."""
