#!/bin/sh
# What a machine promises that has booted from this image, beside what every image does: ../prove.sh comes before it.
# shellcheck disable=SC2154,SC2317 # broken is counted there, which calls functions by their names, too
# Programs, whose sources speak of keys, are elsewhere.
private_keys() { grep --recursive --quiet --binary-files=without-match --regexp="-----BEGIN [A-Z ]*PRIVATE KEY" /etc /root /srv /var; }
units_of_the_platform() {
    for unit in /etc/systemd/system/hermes-platform-* /etc/systemd/system/hermesops-*; do
        [ ! -e "$unit" ] || return 0
    done
    return 1
}
distributions_own() {
    systemctl is-active postgresql.service redis-server.service nginx.service prometheus.service \
        prometheus-alertmanager.service prometheus-node-exporter.service
}
ours=/usr/local/lib/hermes-platform
router() { "$(echo "$ours"/router/environment-*)/bin/python" -I -c 'import importlib.util as u; assert u.find_spec("litellm")'; }

promise "no private keys" not private_keys
promise "no secrets, certificates or settings of a platform" no_such /etc/hermes-platform
promise "no data of a platform" no_such /var/lib/hermes-platform
promise "no keys of hermesops' processes" no_match '/var/lib/hermesops*'
promise "no database of the distribution's" no_match '/var/lib/postgresql/*/*'
promise "no agent" no_such /opt/hermes
promise "PostgreSQL" /usr/lib/postgresql/15/bin/postgres --version
promise "pgBackRest" pgbackrest version
promise "Redis" redis-server --version
promise "Prometheus" prometheus --version
promise "Alertmanager" prometheus-alertmanager --version
promise "nginx" nginx -v
promise "an object store" "$ours/versitygw" --version
promise "the object store's setup" test -x "$ours/object-store-setup"
promise "hermes-ingest" test -x "$ours/hermes-ingest"
promise "hermes-router" test -s "$ours/router/hermes-router.pyz"
promise "LiteLLM" router
promise "hermesops" env HOME=/nonexistent /opt/hermesops/current/venv/bin/hermesops --version
promise "its programs belong to root" test "$(stat --format=%U /opt/hermesops/current/venv 2>/dev/null)" = root
promise "users of the platform's services" id hermes-object-store hermes-ingest hermes-logs hermes-router hermesops hermesops-identity hermesops-relay hermesops-api
promise "nothing of the platform's is set up" not units_of_the_platform
promise "nothing of the distribution's runs" not distributions_own
promise "units of the distribution's are masked" masked postgresql.service redis-server.service nginx.service \
    prometheus.service prometheus-alertmanager.service prometheus-node-exporter.service

[ "$broken" -eq 0 ] && exit 42
exit 43
