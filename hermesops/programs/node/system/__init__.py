"""What hermes-node uses of the computer: files, systemd, firewall, other programs, other users."""
