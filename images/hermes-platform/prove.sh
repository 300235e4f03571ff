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
# The one port the firewall names for nobody is the vendor's daemon's; 68 is a DHCP client, which a rented machine has.
daemon_port() { nft list chain inet hermes input | sed -n 's/.*tcp dport \([0-9]*\) drop.*/\1/p'; }
nothing_listens_outside() {
    ! ss --no-header --listening --tcp --udp --numeric | awk '{print $5}' |
        grep --invert-match --extended-regexp "^(127\.|\[::1\])|:($(daemon_port)|68)\$" | grep --quiet .
}
# Its own comes a moment after the boot.
no_journal_of_another() {
    # shellcheck disable=SC2010 # names of a folder that holds machine ids
    ! ls -A /var/log/journal | grep --invert-match --line-regexp --fixed-strings "$(cat /etc/machine-id)"
}
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
masked() { # UNIT...
    for unit in "$@"; do [ "$(systemctl is-enabled "$unit" 2>/dev/null)" = masked ] || return 1; done
}
ours=/usr/local/lib/hermes-platform
router() { "$(echo "$ours"/router/environment-*)/bin/python" -I -c 'import importlib.util as u; assert u.find_spec("litellm")'; }

promise "booted" up
promise "a machine-id of its own" grep --quiet --extended-regexp '^[0-9a-f]{32}$' /etc/machine-id
promise "no host keys" no_match '/etc/ssh/ssh_host_*'
promise "no command history" no_such /root/.bash_history
promise "no package lists" empty /var/lib/apt/lists
promise "no journal of another machine" no_journal_of_another
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
promise "users of the platform's services" id hermes-object-store hermes-ingest hermes-logs hermes-router hermesops hermesops-identity
promise "nothing of the platform's is set up" not units_of_the_platform
promise "nothing of the distribution's runs" not distributions_own
promise "units of the distribution's are masked" masked postgresql.service redis-server.service nginx.service \
    prometheus.service prometheus-alertmanager.service prometheus-node-exporter.service
promise "the firewall is closed" sh -c 'nft list chain inet hermes input | grep --quiet "policy drop"'
promise "sshd is masked" masked ssh.service
promise "nothing listens beyond loopback" nothing_listens_outside

[ "$broken" -eq 0 ] && exit 42
exit 43
