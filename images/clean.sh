#!/bin/sh
# Take out of this machine what must not be in any image: whose it is, what it can prove, what it remembers. The same
# shell has read the image's own clean.sh before.
# It runs through the vendor's daemon, which has to go on answering afterwards, so nothing of the vendor's is stopped.
# Running it twice is harmless.
set -eu

# Whose it is. An empty machine-id is made anew at the next boot; the word "uninitialized" would also mean "first boot",
# at which systemd enables every unit that can be enabled. The vendor writes the host name.
: >/etc/machine-id
rm -f /var/lib/dbus/machine-id
echo localhost >/etc/hostname
if command -v cloud-init >/dev/null 2>&1; then cloud-init clean --logs; fi
rm -f /var/lib/dhcp/*.leases /var/lib/systemd/network/*.lease 2>/dev/null || true

# What it can prove: keys, tokens, and the seed of keys to come.
rm -f /etc/ssh/ssh_host_*_key /etc/ssh/ssh_host_*_key.pub
rm -rf /root/.ssh
rm -f /var/lib/systemd/random-seed /var/lib/systemd/credential.secret
if [ -e /etc/justavps/env ]; then : >/etc/justavps/env; fi

# What it remembers. Role hermes_base makes the agent's home everywhere.
rm -rf /var/lib/hermes/logs/* /var/lib/hermes/.cache
rm -rf /root/.ansible /root/.cache /root/.bash_history /root/.python_history /root/.wget-hsts
apt-get clean 2>/dev/null || true
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/lib/dpkg/*-old
find /tmp /var/tmp -mindepth 1 -maxdepth 1 ! -name 'systemd-private-*' -exec rm -rf {} +
find /var/log -type f ! -path '/var/log/journal/*' -exec truncate --size=0 {} +
find /var/log -type f \( -name '*.gz' -o -name '*.[0-9]' \) -delete
# Files of the journal that are open stay usable for the daemon that writes them, and are gone with it.
journalctl --rotate >/dev/null 2>&1 || true
rm -rf /var/log/journal/*

sync
echo cleaned
