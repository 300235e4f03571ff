"""What is read and changed on an instance's machine: hermes-node, gateway, releases, data volume, power."""
