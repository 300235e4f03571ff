#!/bin/sh
# Take out of this machine what must not be in this image; ../clean.sh takes out what must be in none, after it.
# Running it twice is harmless.
set -eu

# A package that PostgreSQL needs makes a certificate of its own, which nothing of the platform's reads.
rm -f /etc/ssl/private/ssl-cert-snakeoil.key /etc/ssl/certs/ssl-cert-snakeoil.pem

# What roles make on the host itself: secrets, certificates, databases, figures.
rm -rf /etc/hermes-platform /var/lib/hermes-platform /var/lib/hermesops /var/lib/hermesops-identity /var/lib/hermesops-relay /var/lib/hermesops-api
rm -rf /var/lib/postgresql/*/* /var/lib/redis/* /var/lib/prometheus/*/* /var/lib/pgbackrest/*
rm -rf /var/spool/pgbackrest/* /var/lib/nginx/*/*
