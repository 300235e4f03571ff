#!/bin/sh
# Check a machine that has booted from the image. One line for each promise; the exit status is 42 when all of them hold
# and 43 when one does not, so that a script that was cut short proves nothing.
# shellcheck disable=SC2317 # functions are called by name, through promise
set -u
broken=0

promise() { # NAME COMMAND...
    name=$1
    shift
    if "$@" >/dev/null 2>&1; then echo "ok $name"; else
        echo "broken $name"
        broken=1
    fi
}
not() { if "$@"; then return 1; else return 0; fi; }
empty() { [ -z "$(ls -A "$1" 2>/dev/null)" ]; }
no_such() { [ ! -e "$1" ]; }
no_match() { # PATTERN: a glob that must find nothing
    # shellcheck disable=SC2086 # the glob is meant to be expanded
    set -- $1
    [ ! -e "$1" ]
}
up() { case $(systemctl is-system-running) in running | degraded | starting) ;; *) return 1 ;; esac }
# The one port the firewall names is the vendor's daemon's; 68 is a DHCP client, which a rented machine has.
daemon_port() { nft list chain inet hermes input | sed -n 's/.*tcp dport \([0-9]*\) drop.*/\1/p'; }
nothing_listens_outside() {
    ! ss --no-header --listening --tcp --udp --numeric | awk '{print $5}' |
        grep --invert-match --extended-regexp "^(127\.|\[::1\])|:($(daemon_port)|68)\$" | grep --quiet .
}
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
# Its own comes a moment after the boot.
no_journal_of_another() {
    # shellcheck disable=SC2010 # names of a folder that holds machine ids
    ! ls -A /var/log/journal | grep --invert-match --line-regexp --fixed-strings "$(cat /etc/machine-id)"
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

promise "booted" up
promise "a machine-id of its own" grep --quiet --extended-regexp '^[0-9a-f]{32}$' /etc/machine-id
promise "no host keys" no_match '/etc/ssh/ssh_host_*'
promise "no host keys of hermes-node's" no_match '/etc/hermes-node/ssh_host_*'
promise "no command history" no_such /root/.bash_history
promise "no package lists" empty /var/lib/apt/lists
promise "no journal of another machine" no_journal_of_another
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
promise "the firewall is closed" sh -c 'nft list chain inet hermes input | grep --quiet "policy drop"'
promise "the machine tells how it does" exporter
promise "it tells nobody else before it knows whom" no_such /etc/hermes-monitoring/ingest.env
promise "no metrics and no logs of another machine" nothing_watched_before
promise "none of the distribution's monitoring" not distributions_own_monitoring
promise "sshd is masked" test "$(systemctl is-enabled ssh.service 2>/dev/null)" = masked
promise "nothing listens beyond loopback" nothing_listens_outside

[ "$broken" -eq 0 ] && exit 42
exit 43
