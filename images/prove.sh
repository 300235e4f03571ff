#!/bin/sh
# What every image promises, and what its own prove.sh is written with: the same shell reads that one next.
# One line for each promise; the exit status is 42 when all of them hold and 43 when one does not, so that a script that
# was cut short proves nothing.
# shellcheck disable=SC2034,SC2317 # broken is read at the end of the other; functions are called by name, through promise
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
masked() { # UNIT...
    for unit in "$@"; do [ "$(systemctl is-enabled "$unit" 2>/dev/null)" = masked ] || return 1; done
}

promise "booted" up
promise "a machine-id of its own" grep --quiet --extended-regexp '^[0-9a-f]{32}$' /etc/machine-id
promise "no host keys" no_match '/etc/ssh/ssh_host_*'
promise "no command history" no_such /root/.bash_history
promise "no package lists" empty /var/lib/apt/lists
promise "no journal of another machine" no_journal_of_another
promise "the firewall is closed" sh -c 'nft list chain inet hermes input | grep --quiet "policy drop"'
promise "sshd is masked" masked ssh.service
promise "nothing listens beyond loopback" nothing_listens_outside
