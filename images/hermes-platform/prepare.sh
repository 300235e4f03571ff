#!/bin/sh
# Run every program that was installed once, so that one that does not run is known before an image is saved of it.
# Nothing of the platform's may run afterwards, and nothing may be kept of it.
set -eu

runs() { # COMMAND...
    "$@" >/dev/null 2>&1 || {
        echo "$1 does not run" >&2
        exit 1
    }
}

ours=/usr/local/lib/hermes-platform
runs /usr/lib/postgresql/15/bin/postgres --version
runs pgbackrest version
runs redis-server --version
runs prometheus --version
runs prometheus-alertmanager --version
runs prometheus-node-exporter --version
runs nginx -v
runs "$ours/versitygw" --version
[ ! -e "$ours/loki" ] || runs "$ours/loki" --version
runs "$(echo "$ours"/router/environment-*)/bin/python" -I -c 'import importlib.util as u; assert u.find_spec("litellm")'
runs env HOME=/nonexistent /opt/hermesops/current/venv/bin/hermesops --version
