#!/bin/sh
# Take out of this machine what must not be in this image; ../clean.sh takes out what must be in none, after it.
# Running it twice is harmless.
set -eu

# The agent has no user yet, and must not run while its home is looked at.
systemctl stop hermes-gateway.service 2>/dev/null || true

# Neither may what watches the machine: it would write what it remembers after that is taken out.
systemctl stop hermes-monitoring.target hermes-node-exporter.service hermes-loki.service 2>/dev/null || true

# A volume is one machine's, and so is its key.
rm -rf /var/lib/hermes-data/*
rm -f /etc/hermes-node/machine.key /etc/hermes-node/machine.csr
rm -f /etc/hermes-node/machine.crt /etc/hermes-node/authority.crt /etc/hermes-router-authorities.crt
rm -f /etc/hermes-node/ssh_host_* /etc/hermes-node/break-glass-spent.json /etc/hermes-monitoring/ingest.env
rm -rf /etc/hermes-node/identity.json /etc/hermes/.env /etc/hermes/config.yaml

# What it remembers.
rm -rf /var/lib/private/hermes-*/* /run/hermes-metrics/*
