"""What real machines take of this computer: control groups, network, the system's own tools."""
