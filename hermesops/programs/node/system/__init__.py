"""Access of hermes-node to the computer: files, systemd, firewall, other programs, other users."""
