"""Running units on a machine that belong neither to hermesops nor to the distribution.

They are those of ``systemd-run``, and files in ``/etc/systemd/system`` that no role and no vendor wrote. Scopes are
left out: they are of sessions, and of the commands that ``channel.detached`` runs.
"""

import re

from testinfra.host import Host

from hermesops.machines.verify.checks.promise import Expected, output_of, warn_unless
from hermesops.vendor.channel.detached_scripts import SWEEPER
from hermesops.wire.foreign_text import quoted

OF_ROLES = frozenset(
    {
        *("hermes-certificate.service", "hermes-certificate.timer", "hermes-data.service", "hermes-databases.service"),
        *("hermes-databases.timer", "hermes-firewall-guard.service", "hermes-firewall.service"),
        *("hermes-gateway.service", "hermes-identity.service", "hermes-loki.service", "hermes-metrics.service"),
        *("hermes-metrics.timer", "hermes-monitoring-renew.service", "hermes-monitoring.path"),
        *("hermes-node-exporter.service", "hermes-orders.service", "hermes-orders.timer", "hermes-prometheus.service"),
        *(
            "hermes-recovery.service",
            "hermes-recovery.timer",
            "hermes-release.service",
            "hermes-relief.service",
            "hermes-relief.timer",
            "hermes-sandbox.socket",
        ),
        *("hermes-sandbox@.service", "hermes-syslog.service", "hermes-vmagent.service"),
    }
)
"""Units that the roles of an instance's machine write, of the kinds that run something."""

_OURS_FOR_A_WHILE = (f"{SWEEPER}*", "hermes-firewall-guard.timer")
"""Transient units of our own: of detached commands, and what takes firewall rules back that lock us out."""

_OF_OTHERS = ("justavps-*", "snap.*")
"""Units that the vendor and the distribution's package manager write there."""

_MOST = 20
"""Units that are asked about; of more the rest is not looked at."""

_NAMED = 5
_NAME, _COMMAND = 80, 120
"""Characters that are shown of a unit's name and of its command line."""

_SCRIPT = """
set --
for file in /run/systemd/transient/* /etc/systemd/system/*; do
  name=${file##*/}
  case $name in
    KNOWN) continue ;;
    *[!A-Za-z0-9:_.@\\\\-]*) continue ;;
    *.service|*.timer|*.path|*.socket) ;;
    *) continue ;;
  esac
  [ "$#" -lt MOST ] || break
  case $(readlink -f "$file") in /dev/null|/usr/lib/*|/lib/*|'') continue ;; esac
  case $name in *@.*) name="${name%%@.*}@*.${name##*@.}" ;; esac
  set -- "$@" "$name"
done
[ "$#" -gt 0 ] || exit 0
systemctl show --property=Id,ActiveState,InactiveExitTimestamp,Unit -- "$@" || exit
for name; do
  command=$(systemctl show --property=ExecStart --value -- "$name" | head -c 2000 | tr '\\n\\000' '  ')
  printf '\\ncommand %s %s' "$name" "$command"
done
"""
_LIST = (
    _SCRIPT.strip()
    .replace("KNOWN", "|".join(sorted({*OF_ROLES, *_OURS_FOR_A_WHILE, *_OF_OTHERS})))
    .replace("MOST", str(_MOST))
)

_RUNNING = frozenset({"active", "activating", "reloading", "deactivating"})
_ARGUMENTS = re.compile(r"argv\[\]=(.*?) ; ignore_errors=")


def foreign_units(host: Host, _: Expected) -> str:
    """Warn of foreign units that run, or wait to run something.

    Raises:
        WorthALookError: There are some.
    """
    shown, *commands = output_of(host, f"LC_ALL=C; export LC_ALL; {_LIST}").split("\ncommand ")
    command_of = dict(line.split(" ", 1) for line in commands if " " in line)
    blocks = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in shown.split("\n\n")]
    running = [block for block in blocks if block.get("ActiveState") in _RUNNING and block.get("Id")]
    described = [_told(block, command_of) for block in running[:_NAMED]]
    more = f" and {len(running) - _NAMED} more" if len(running) > _NAMED else ""
    warn_unless(not running, f"foreign units: {'; '.join(described)}{more}")
    return "no foreign units"


def _told(block: dict[str, str], command_of: dict[str, str]) -> str:
    name, since = block["Id"], block.get("InactiveExitTimestamp", "")
    # A timer runs nothing itself.
    own = command_of.get(name, "") if name.endswith(".service") else command_of.get(block.get("Unit", ""), "")
    template = re.sub(r"@[^@]*\.", "@*.", name)
    ran = _ARGUMENTS.search(own or command_of.get(template, ""))
    words = f": {quoted(ran[1], longest=_COMMAND)}" if ran else ""
    return f"{quoted(name, longest=_NAME)}{f' since {quoted(since, longest=40)}' if since else ''}{words}"
