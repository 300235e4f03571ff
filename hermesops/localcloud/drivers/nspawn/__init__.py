"""Real machines on this computer: systemd-nspawn, one control group, network namespace and disk image each."""
