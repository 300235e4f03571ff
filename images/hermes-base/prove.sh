#!/bin/sh
# What a machine promises that has booted from this image, beside what every image does: ../prove.sh comes before it.
# shellcheck disable=SC2154,SC2317 # broken is counted there, which calls functions by their names, too
# The unit's condition is that there is no key: where it was met, the image brought none. It runs late in a boot.
own_key() {
    tries=0
    until [ -s /etc/hermes-node/machine.csr ]; do
        tries=$((tries + 1))
        [ "$tries" -le 120 ] || return 1
        sleep 0.5
    done
    [ "$(systemctl show hermes-identity.service --property=ConditionResult --value)" = yes ]
}
exporter() {
    tries=0
    until curl --silent --fail http://127.0.0.1:9100/metrics; do
        tries=$((tries + 1))
        [ "$tries" -le 60 ] || return 1
        sleep 0.5
    done
}
# The machine-id was written at this machine's first boot.
nothing_watched_before() { [ -z "$(find /var/lib/private -type f ! -newer /etc/machine-id 2>/dev/null)" ]; }
distributions_own_monitoring() {
    systemctl is-active prometheus.service prometheus-node-exporter.service syslog-ng.service victoria-metrics.service
}

promise "no host keys of hermes-node's" no_match '/etc/hermes-node/ssh_host_*'
promise "a key of its own" own_key
promise "no machine's certificate" no_such /etc/hermes-node/machine.crt
promise "no user's identity" no_such /etc/hermes-node/identity.json
promise "no user's keys" no_such /etc/hermes/.env
promise "no user's memories" empty /var/lib/hermes/memories
promise "no user's sessions" empty /var/lib/hermes/sessions
promise "no data volume of another machine" empty /var/lib/hermes-data
promise "an agent" test -x /opt/hermes/current/venv/bin/python
promise "the agent's programs belong to root" test "$(stat --format=%U /opt/hermes/current/venv 2>/dev/null)" = root
promise "the agent waits for a user" not systemctl --quiet is-active hermes-gateway.service
promise "the machine tells how it does" exporter
promise "it tells nobody else before it knows whom" no_such /etc/hermes-monitoring/ingest.env
promise "no metrics and no logs of another machine" nothing_watched_before
promise "none of the distribution's monitoring" not distributions_own_monitoring

[ "$broken" -eq 0 ] && exit 42
exit 43
