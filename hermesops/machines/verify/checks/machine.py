"""Checks that hold on every machine, with an instance or without: services, firewall, sandbox, disk.

Each check runs its commands first and judges afterwards; see ``MachineCheck``.
"""

import json
from typing import Any

from testinfra.host import Host

from hermesops.base.narration import counted
from hermesops.errors import Hint
from hermesops.machines.verify.checks.foreign_units import foreign_units
from hermesops.machines.verify.checks.promise import (
    CONVERGE,
    DAEMON,
    GATEWAY,
    SANDBOX,
    Expected,
    MachineCheck,
    Promise,
    as_promised,
    broken_unless,
    modes,
    output_of,
    running,
    unit,
    warn_unless,
)
from hermesops.wire.foreign_text import one_line
from hermesops.wire.protocol import DATA_PATH, DATA_VARIABLE, GB, VARIABLES

_PYTHON = """runuser -u hermes -- /opt/hermes/current/venv/bin/python -I -V || echo unknown
readlink -e /opt/hermes/current/venv/bin/python || echo nothing
[ ! -d /opt/hermes/current/python ] || readlink -e /opt/hermes/current/python
readlink /proc/$(systemctl show hermes-gateway.service --property=MainPID --value)/exe || true"""
_VERSION_CHARACTERS = 20
_SANDBOX_BYTES = str(512 << 20)
_LOOPBACK = ("127.", "[::1]", "[::ffff:127.")
_SOCKETS = "ss --no-header --listening --tcp --udp --numeric --processes"
_NOT_ROOT = {"match": {"op": "!=", "left": {"meta": {"key": "skuid"}}, "right": 0}}
_METADATA = ("169.254.0.0", "fe80::", "fd00:ec2::254")
_AGAIN = Hint(("image", "build"), ", and a machine from the new image")
_ENCRYPTED = "/dev/mapper/hermes-data"
_FULL = 80
"""Per cent; the rest is for the copy that is kept while a backup is restored."""


def _runs(name: str) -> MachineCheck:
    """The check that a unit runs, and starts at boot."""
    return lambda host, _: running(host, name)


def _firewall(host: Host, _: Expected) -> str:
    listed = json.loads(output_of(host, "nft --json list chain inet hermes input"))["nftables"]
    chain = next(entry["chain"] for entry in listed if "chain" in entry)
    rules = [entry["rule"]["expr"] for entry in listed if "rule" in entry]
    broken_unless(chain.get("hook") == "input" and chain.get("policy") == "drop", f"policy {chain.get('policy')}")
    open_to_all = [rule for rule in rules if {"accept": None} in rule and not _is_narrow(rule)]
    broken_unless(not open_to_all, f"{counted(len(open_to_all), 'rule')} for anybody: {json.dumps(open_to_all)[:200]}")
    return f"drops but for {sum({'accept': None} in rule for rule in rules)} narrow rules"


def _egress(host: Host, _: Expected) -> str:
    listed = json.loads(output_of(host, "nft --json list chain inet hermes output"))["nftables"]
    ports = _ports_of_daemon(host)
    refused = " ".join(json.dumps(rule) for rule in _refused_to_users(listed))
    left = [f"port {port} of this machine" for port in ports if f'"right": {port}}}' not in refused]
    left += [address for address in _METADATA if json.dumps(address) not in refused]
    broken_unless(not left, f"the agent's user reaches {', '.join(left)}")
    broken_unless(ports, "the vendor's daemon listens nowhere")
    return f"neither port {', '.join(sorted(ports))} here nor {_METADATA[0]}/16"


def _refused_to_users(listed: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The rules of the output chain that reject something for everybody but root."""
    hooks = [entry["chain"].get("hook") for entry in listed if "chain" in entry]
    rules = [entry["rule"]["expr"] for entry in listed if "rule" in entry]
    return [rule for rule in rules if _NOT_ROOT in rule and "reject" in rule[-1]] if hooks == ["output"] else []


def _ports_of_daemon(host: Host) -> set[str]:
    lines = map(str.split, output_of(host, _SOCKETS).splitlines())
    daemon = f"pid={unit(host, DAEMON).get('MainPID', '')},"
    return {words[4].rpartition(":")[2] for words in lines if words[0] == "tcp" and daemon in " ".join(words[6:])}


def _is_narrow(rule: list[dict[str, Any]]) -> bool:
    """Whether an accepting rule accepts only known sources."""
    left = [json.dumps(part["match"]["left"]) + json.dumps(part["match"]["right"]) for part in rule if "match" in part]
    text = " ".join(left)
    return any(sign in text for sign in ('"iifname"', '"saddr"', '"established"', '"icmpv6"', '"hoplimit"'))


def _sshd(host: Host, _: Expected) -> str:
    states = {name: unit(host, name).get("LoadState") for name in ("ssh.service", "ssh.socket")}
    broken_unless(set(states.values()) <= {"masked", "not-found"}, f"not masked: {states}")
    return "masked"


def _ports(host: Host, _: Expected) -> str:
    lines = output_of(host, _SOCKETS).splitlines()
    daemon = unit(host, DAEMON).get("MainPID", "")
    outside = [words for words in map(str.split, lines) if not words[4].startswith(_LOOPBACK)]
    strangers = [" ".join((words[0], words[4], *words[6:])) for words in outside if not _is_the_vendors(words, daemon)]
    broken_unless(not strangers, f"listening beyond loopback: {'; '.join(strangers)}")
    return f"{len(lines) - len(outside)} on loopback, {len(outside)} of the vendor"


def _is_the_vendors(words: list[str], daemon: str) -> bool:
    process = " ".join(words[6:])
    # By its process id, as anybody can take its name. A rented machine's DHCP client listens on the link, too.
    return f"pid={daemon}," in process or '"systemd-network' in process


def _units(host: Host, _: Expected) -> str:
    failed = output_of(host, "systemctl list-units --state=failed --plain --no-legend --no-pager").splitlines()
    names = [line.split()[0] for line in failed if line.strip()]
    broken_unless(not names, f"failed: {', '.join(names)}")
    return "none failed"


def _programs(host: Host, _: Expected) -> str:
    # -H: the slot itself, not only the link to it.
    search = "find -H /opt/hermes/current /opt/hermes/node /opt/hermes/sandbox /opt/hermes/libexec -maxdepth 5"
    changeable = "! -type l '(' ! -user root -o -perm /022 ')'"
    changeable_path = output_of(host, f"{search} {changeable} -print -quit").strip()
    broken_unless(not changeable_path, f"{changeable_path} may be changed by others than root")
    return "root's alone"


def _python(host: Host, _: Expected) -> str:
    version, program, *others = output_of(host, _PYTHON).splitlines()
    own = others.pop(0) if others and others[0].endswith("/python") else ""
    broken_unless(program.startswith(f"{own}/bin/" if own else "/usr/bin/python3"), f"the slot's Python is {program}")
    broken_unless(others in ([], [program]), f"the gateway runs {' '.join(others)}, and its slot has {program}")
    origin = "brought by the release" if own else "of the distribution"
    return f"{one_line(version, longest=_VERSION_CHARACTERS)}, {origin}"


def _home(host: Host, _: Expected) -> str:
    return modes(host, {"/var/lib/hermes": "hermes:hermes 700", "/var/lib/hermes/memories": "hermes:hermes 700"})


_BY_HAND = "/run/systemd/system.control/"
"""Where ``systemctl set-property --runtime`` writes; systemd.unit(5)."""


def _memory(host: Host, _: Expected) -> str:
    shown = unit(host, GATEWAY)
    unlimited = [name for name in ("MemoryMax", "TasksMax") if not shown.get(name, "").isdecimal()]
    broken_unless(not unlimited, f"without a limit: {', '.join(unlimited)}")
    by_hand = [path for path in shown.get("DropInPaths", "").split() if path.startswith(_BY_HAND)]
    broken_unless(not by_hand, f"changed by hand until the next boot: {', '.join(by_hand)}")
    # The limits need the kernel's count, which a local machine's kernel lacks.
    used = shown.get("MemoryCurrent", "")
    counted = f"{int(used) >> 20} MiB used" if used.isdecimal() else "not counted by this kernel"
    return f"{int(shown['MemoryMax']) >> 20} MiB ({counted}), {shown['TasksMax']} tasks"


DROP_INS = (f"/etc/systemd/system/{GATEWAY}.d/data.conf", "/etc/systemd/system/ssh.service.d/hermes.conf")
"""What roles add to units: the gateway waits for its data volume, and sshd makes host keys of its own."""


def _drop_ins(host: Host, _: Expected) -> str:
    there = host.run(f"stat --format=%n {' '.join(DROP_INS)}").stdout.splitlines()
    read = unit(host, GATEWAY).get("DropInPaths", "").split()
    missing = [path for path in DROP_INS if path not in there]
    broken_unless(not missing, f"missing: {', '.join(missing)}")
    unread = [path for path in DROP_INS if GATEWAY in path and path not in read]
    broken_unless(not unread, f"there, and not read by systemd: {', '.join(unread)}")
    return f"{len(DROP_INS)} of the roles are there"


_BEGUN, _READY = "7d4958e842da4a758f6c1cdc7b36dcc5", "39f53479d3a045ac8e11786248231fbf"
"""Ids of systemd's messages that it begins to start a unit, and that it started one. Source: sd-messages.h."""

_FEW = 4
"""Starts in ten minutes that a change with its rollback may take."""

_STARTS = (
    f"journalctl --quiet --no-pager --boot --since=-10min --lines=400 --output=cat UNIT={GATEWAY} MESSAGE_ID={_BEGUN}"
    f" MESSAGE_ID={_READY}"
)


def _starts(host: Host, _: Expected) -> str:
    lines = output_of(host, _STARTS).splitlines()
    # A unit of type "simple" is never said to begin, and one that is stopped in between never to be started.
    count = max(sum(line.startswith(word) for line in lines) for word in ("Starting ", "Started "))
    starts = f"started {count} times within ten minutes"
    warn_unless(count <= _FEW, f"{starts}; those by hand or of another unit are not among systemd's restarts")
    return starts


def _sandbox(host: Host, _: Expected) -> str:
    promised = {
        "MemoryMax": _SANDBOX_BYTES,
        "LimitAS": _SANDBOX_BYTES,
        "RestrictAddressFamilies": "AF_UNIX",
        "NoNewPrivileges": "yes",
        # serve.py ends a script after 30 s and says why; this is its margin.
        "RuntimeMaxUSec": "32s",
    }
    shown = unit(host, SANDBOX)
    launcher = output_of(host, "ls /opt/hermes/current/venv/lib/python3*/site-packages/hermes-sandbox.pth || true")
    as_promised(shown, promised)
    broken_unless(launcher, "the slot has no launcher: scripts run outside the sandbox")
    return "512 MiB, 30 s, no network"


def _hardening(host: Host, _: Expected) -> str:
    promised = {
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "PrivateDevices": "yes",
        "PrivateUsers": "yes",
        "RestrictNamespaces": "yes",
        "CapabilityBoundingSet": "",
        "User": "hermes",
    }
    as_promised(unit(host, GATEWAY), promised)
    return "as the unit promises"


def _journal(host: Host, _: Expected) -> str:
    lines = output_of(host, "cat /etc/systemd/journald.conf.d/50-hermes.conf").splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    broken_unless("SystemMaxUse" in settings, "the journal may fill the disk")
    return f"at most {settings['SystemMaxUse']}"


_ZONE = "env --unset=TZ date +%Z"


def _time_zone(host: Host, _: Expected) -> str:
    zone = output_of(host, _ZONE).strip()
    broken_unless(
        zone == "UTC", f"the time zone is {zone[:40]}: users' jobs run at other hours than their schedules say"
    )
    return zone


def _backup(host: Host, _: Expected) -> str:
    known = host.run("getent passwd hermes-backup").stdout.strip()
    program = host.run("stat --format='%U %a' /usr/bin/restic").stdout.strip()
    broken_unless(known, "there is no user hermes-backup")
    broken_unless(known.endswith(":/usr/sbin/nologin"), "the user hermes-backup can log in")
    broken_unless(program == "root 755", f"restic is {program or 'absent'}")
    return "restic, as a user of its own"


def _machine_key(host: Host, _: Expected) -> str:
    opened = "'(' ! -user root -o -perm /077 ')'"
    readable_path = output_of(host, f"find /etc/hermes-node -maxdepth 1 {opened} -print -quit").strip()
    broken_unless(not readable_path, f"{readable_path} may be read by others than root")
    unit_state = unit(host, "hermes-identity.service").get("UnitFileState")
    broken_unless(unit_state == "enabled", f"no key is made at the first boot: hermes-identity.service is {unit_state}")
    return f"root's alone; renewal {running(host, 'hermes-certificate.timer')}"


def _orders(host: Host, _: Expected) -> str:
    return running(host, "hermes-orders.timer")


def _watch(host: Host, _: Expected) -> str:
    timers = [f"hermes-{name}.timer" for name in ("metrics", "databases", "recovery")]
    return ", ".join(f"{name} {running(host, name)}" for name in timers)


def _exporter(host: Host, _: Expected) -> str:
    response = host.run("curl --silent --fail --max-time 10 http://127.0.0.1:9100/metrics")
    running(host, "hermes-monitoring.target")
    broken_unless(response.rc == 0, f"node_exporter does not answer: curl ended with {response.rc}")
    broken_unless("\nnode_load1 " in response.stdout, "node_exporter answers without the machine's load")
    return f"{sum(not line.startswith('#') for line in response.stdout.splitlines())} figures on loopback"


def _volume(host: Host, _: Expected) -> str:
    ordered = host.run(f"grep -c '^{DATA_VARIABLE}=' {VARIABLES}").stdout.strip()
    mounted = host.run(f"findmnt --noheadings --output SOURCE --mountpoint {DATA_PATH}").stdout.strip()
    is_ordered = ordered.isdecimal() and int(ordered) > 0
    broken_unless(mounted or not is_ordered, f"a volume was ordered, and {DATA_PATH} is a folder of the machine's disk")
    if not mounted:
        return "a folder of the machine's disk, as ordered"
    return "encrypted" if mounted == _ENCRYPTED else f"mounted from {mounted}, not encrypted by the machine"


def _room(host: Host, _: Expected) -> str:
    shown = output_of(host, f"df --block-size=1 --output=pcent,ipcent,used,size {DATA_PATH}").split()[-4:]
    # A file system that makes inodes as it goes says "-".
    fullest = max(int(figure.rstrip("%")) for figure in shown[:2] if figure != "-")
    used, size = (int(figure) / GB for figure in shown[2:])
    usage = f"{used:.1f} of {size:.1f} GB used ({shown[0]}), inodes {shown[1]}"
    broken_unless(fullest < _FULL, usage)
    return usage


MACHINE_PROMISES = (
    Promise(
        "vendor-daemon",
        "the vendor's daemon runs",
        _runs(DAEMON),
        Hint("the vendor's watchdog brings it back in 2 minutes"),
    ),
    Promise("sandbox-socket", "the sandbox can be entered", _runs("hermes-sandbox.socket"), CONVERGE),
    Promise("firewall-service", "the firewall is loaded at every boot", _runs("hermes-firewall.service"), CONVERGE),
    Promise("firewall", "only the vendor's broker can connect", _firewall, CONVERGE),
    Promise("egress", "the agent reaches neither the vendor's daemon nor its metadata", _egress, CONVERGE),
    Promise("sshd", "sshd is masked", _sshd, CONVERGE),
    Promise(
        "ports",
        "only the vendor's daemon listens beyond loopback",
        _ports,
        Hint("find the process and stop it"),
    ),
    Promise("units", "no unit has failed", _units, Hint(("instance", "exec", "USER", "systemctl status UNIT"))),
    Promise("programs", "programs belong to root", _programs, _AGAIN),
    Promise(
        "python", "the gateway runs under the Python of its release", _python, Hint(("rollout", "preview", "RELEASE"))
    ),
    Promise("home", "the agent's home is private", _home, CONVERGE),
    Promise("memory", "the gateway's memory has the limit of its unit", _memory, Hint("runbooks/memory-near-cap.md")),
    Promise("drop-ins", "the drop-ins of the roles are present", _drop_ins, Hint(("fleet", "converge", "USER"))),
    Promise(
        "starts",
        "the gateway does not restart repeatedly",
        _starts,
        Hint(("instance", "logs", "USER", "--unit", "all", "--since", "10m"), "shows why it stops"),
    ),
    Promise(
        "foreign-units",
        "only units of hermesops and of the distribution run",
        foreign_units,
        Hint(
            ("instance", "exec", "USER", "systemctl status UNIT"),
            "shows it,",
            ("instance", "exec", "USER", "systemctl stop UNIT"),
            "ends it",
        ),
    ),
    Promise("sandbox", "scripts have 512 MB, 30 s and no network", _sandbox, CONVERGE),
    Promise("hardening", "the gateway's unit is hardened", _hardening, CONVERGE),
    Promise("journal", "the journal has a limit", _journal, CONVERGE),
    Promise(
        "time-zone",
        "the machine's time is UTC",
        _time_zone,
        Hint(("fleet", "converge", "USER"), "sets it, then", ("instance", "restart", "USER")),
    ),
    Promise(
        "machine-key", "only root can read the machine's key, and its certificate is renewed", _machine_key, CONVERGE
    ),
    Promise("orders", "the machine polls for break-glass orders twice a minute", _orders, CONVERGE),
    Promise("backup", "its state can be copied by a user that the agent cannot read", _backup, CONVERGE),
    Promise("watch", "its figures are taken, and a gateway that keeps ending is started again", _watch, CONVERGE),
    Promise("exporter", "its figures can be read on the machine, and nowhere else", _exporter, CONVERGE),
    Promise("volume", "data have a volume of their own", _volume, Hint("runbooks/data-volume.md")),
    Promise(
        "disk",
        "the data have room",
        _room,
        Hint(("instance", "resize", "USER", "--plan", "heavy"), ", or its user deletes some: runbooks/data-volume.md"),
    ),
)
"""In the order for people to read."""
