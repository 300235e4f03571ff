"""What every instance's machine promises, and how to see whether it holds.

Each look runs its commands first and judges afterwards; see ``Look``.
"""

import json
from typing import Any

from testinfra.host import Host

from hermesops.verify.observations import observed
from hermesops.verify.promise import Expected, Promise, broken_unless, output_of

GATEWAY = "hermes-gateway.service"
_DAEMON = "justavps-daemon"
_OK = 200
_AGAIN = "hermesops image build, and a machine from the new image"
_CONVERGE = "ansible-playbook ansible/playbooks/instance.yml repairs what has drifted"


_UNITS = (
    f"{_DAEMON}.service",
    GATEWAY,
    "hermes-sandbox.socket",
    "hermes-sandbox@verify.service",
    "hermes-firewall.service",
    "ssh.service",
    "ssh.socket",
)
_PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "UnitFileState",
    "MainPID",
    "User",
    "MemoryCurrent",
    "MemoryMax",
    "TasksMax",
    "LimitAS",
    "RuntimeMaxUSec",
    "RestrictAddressFamilies",
    "NoNewPrivileges",
    "ProtectSystem",
    "ProtectHome",
    "PrivateTmp",
    "PrivateDevices",
    "PrivateUsers",
    "RestrictNamespaces",
    "CapabilityBoundingSet",
)


def _unit(host: Host, name: str) -> dict[str, str]:
    """What systemd says of a unit. All are asked for in one command: each would cost a machine as much as all."""
    shown = output_of(host, f"systemctl show {' '.join(_UNITS)} --property={','.join(_PROPERTIES)}")
    units = (dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in shown.split("\n\n"))
    return next(unit for unit in units if unit.get("Id") == name)


def _running(host: Host, name: str) -> str:
    unit = _unit(host, name)
    broken_unless(unit.get("ActiveState") == "active", f"{name} is {unit.get('ActiveState')}")
    broken_unless(unit.get("UnitFileState") == "enabled", f"{name} is {unit.get('UnitFileState') or 'not enabled'}")
    return "running, enabled"


def _daemon(host: Host, _: Expected) -> str:
    return _running(host, f"{_DAEMON}.service")


def _gateway(host: Host, _: Expected) -> str:
    seen = observed(host)
    # systemd is told "ready" a second after the API answers; a verification may well come in between.
    if _unit(host, GATEWAY).get("ActiveState") == "activating" and seen.alive_status == _OK:
        return "answers, about to be called ready"
    return _running(host, GATEWAY)


def _sandbox_socket(host: Host, _: Expected) -> str:
    return _running(host, "hermes-sandbox.socket")


def _firewall_service(host: Host, _: Expected) -> str:
    return _running(host, "hermes-firewall.service")


def _firewall(host: Host, _: Expected) -> str:
    listed = json.loads(output_of(host, "nft --json list chain inet hermes input"))["nftables"]
    chain = next(entry["chain"] for entry in listed if "chain" in entry)
    rules = [entry["rule"]["expr"] for entry in listed if "rule" in entry]
    broken_unless(chain.get("hook") == "input" and chain.get("policy") == "drop", f"policy {chain.get('policy')}")
    open_to_all = [rule for rule in rules if {"accept": None} in rule and not _is_narrow(rule)]
    broken_unless(not open_to_all, f"{len(open_to_all)} rules let anybody in: {json.dumps(open_to_all)[:200]}")
    return f"drops but for {sum({'accept': None} in rule for rule in rules)} narrow rules"


def _is_narrow(rule: list[dict[str, Any]]) -> bool:
    """Whether an accepting rule is one of those that let in no stranger."""
    left = [json.dumps(part["match"]["left"]) + json.dumps(part["match"]["right"]) for part in rule if "match" in part]
    text = " ".join(left)
    return any(sign in text for sign in ('"iifname"', '"saddr"', '"established"', '"icmpv6"', '"hoplimit"'))


def _sshd(host: Host, _: Expected) -> str:
    states = {name: _unit(host, name).get("LoadState") for name in ("ssh.service", "ssh.socket")}
    broken_unless(set(states.values()) <= {"masked", "not-found"}, f"not masked: {states}")
    return "masked"


def _ports(host: Host, _: Expected) -> str:
    lines = output_of(host, "ss --no-header --listening --tcp --udp --numeric --processes").splitlines()
    daemon = _unit(host, f"{_DAEMON}.service").get("MainPID", "")
    outside = [words for words in map(str.split, lines) if not _is_loopback(words[4])]
    strangers = [" ".join((words[0], words[4], *words[6:])) for words in outside if not _is_the_vendors(words, daemon)]
    broken_unless(not strangers, f"listening beyond loopback: {'; '.join(strangers)}")
    return f"{len(lines) - len(outside)} on loopback, {len(outside)} of the vendor"


def _is_loopback(address: str) -> bool:
    return address.startswith(("127.", "[::1]", "[::ffff:127."))


def _is_the_vendors(words: list[str], daemon: str) -> bool:
    process = " ".join(words[6:])
    # By its process, not by a name that anybody can take. A rented machine's DHCP client listens on the link, too.
    return f"pid={daemon}," in process or '"systemd-network' in process


def _units(host: Host, _: Expected) -> str:
    failed = output_of(host, "systemctl list-units --state=failed --plain --no-legend --no-pager").splitlines()
    names = [line.split()[0] for line in failed if line.strip()]
    broken_unless(not names, f"failed: {', '.join(names)}")
    return "none failed"


def _release(host: Host, _: Expected) -> str:
    seen = observed(host)
    release, runs = seen.release, seen.version
    broken_unless(release.get("id"), "/opt/hermes/current points at no slot")
    broken_unless(release.get("hermes_agent"), f"slot {release.get('id')} has no record: it was never completed")
    broken_unless(
        runs == release["hermes_agent"],
        f"slot {release['id']} holds {release['hermes_agent']}, running is {runs or '?'}",
    )
    return f"{release['id']}, running {runs}"


def _programs(host: Host, _: Expected) -> str:
    # -H: the slot itself, not only the link to it.
    search = "find -H /opt/hermes/current /opt/hermes/node /opt/hermes/sandbox /opt/hermes/libexec -maxdepth 5"
    changeable = "! -type l '(' ! -user root -o -perm /022 ')'"
    found = output_of(host, f"{search} {changeable} -print -quit").strip()
    broken_unless(not found, f"{found} may be changed by others than root")
    return "root's alone"


def _modes(host: Host, paths: dict[str, str]) -> str:
    listed = host.run(f"stat --format='%n %U:%G %a' {' '.join(paths)}").stdout.splitlines()
    seen = dict(line.split(" ", 1) for line in listed)
    wrong = [
        f"{path} is {seen.get(path, 'absent')}, not {mode}" for path, mode in paths.items() if seen.get(path) != mode
    ]
    broken_unless(not wrong, "; ".join(wrong))
    return f"{len(paths)} as promised"


def _secrets(host: Host, _: Expected) -> str:
    return _modes(
        host,
        {
            "/etc/hermes": "root:hermes 750",
            "/etc/hermes/.env": "root:hermes 640",
            "/etc/hermes/config.yaml": "root:hermes 640",
            "/etc/hermes-node": "root:root 700",
            "/etc/hermes-node/gateway.json": "root:root 600",
            "/etc/hermes-node/identity.json": "root:root 600",
            "/etc/hermes-node/instance.json": "root:root 600",
        },
    )


def _home(host: Host, _: Expected) -> str:
    return _modes(host, {"/var/lib/hermes": "hermes:hermes 700", "/var/lib/hermes/memories": "hermes:hermes 700"})


def _identity(host: Host, expected: Expected) -> str:
    identity = observed(host).identity
    broken_unless(identity is not None, "the machine belongs to nobody")
    here = f"instance {(identity or {}).get('instance')}, epoch {(identity or {}).get('epoch')}"
    there = f"instance {expected.instance_id}, epoch {expected.epoch}"
    broken_unless(here == there, f"{here}; the registry says {there}")
    return here


def _as_promised(shown: dict[str, str], promised: dict[str, str]) -> None:
    wrong = [
        f"{name}={shown.get(name, '')}, not {value}" for name, value in promised.items() if shown.get(name) != value
    ]
    broken_unless(not wrong, "; ".join(wrong))


def _memory(host: Host, _: Expected) -> str:
    shown = _unit(host, GATEWAY)
    unlimited = [name for name in ("MemoryMax", "TasksMax") if not shown.get(name, "").isdecimal()]
    broken_unless(not unlimited, f"without a limit: {', '.join(unlimited)}")
    # The limits are only as good as the kernel's count, and a local machine's kernel has none.
    used = shown.get("MemoryCurrent", "")
    counted = f"{int(used) >> 20} MiB used" if used.isdecimal() else "not counted by this kernel"
    return f"{int(shown['MemoryMax']) >> 20} MiB ({counted}), {shown['TasksMax']} tasks"


_SANDBOX_BYTES = str(512 << 20)


def _sandbox(host: Host, _: Expected) -> str:
    promised = {
        "MemoryMax": _SANDBOX_BYTES,
        "LimitAS": _SANDBOX_BYTES,
        "RestrictAddressFamilies": "AF_UNIX",
        "NoNewPrivileges": "yes",
        # What serve.py is given to end a script after 30 s with a word about why.
        "RuntimeMaxUSec": "32s",
    }
    unit = _unit(host, "hermes-sandbox@verify.service")
    launcher = output_of(host, "ls /opt/hermes/current/venv/lib/python3*/site-packages/hermes-sandbox.pth || true")
    _as_promised(unit, promised)
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
    _as_promised(_unit(host, GATEWAY), promised)
    return "as the unit promises"


def _journal(host: Host, _: Expected) -> str:
    lines = output_of(host, "cat /etc/systemd/journald.conf.d/50-hermes.conf").splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    broken_unless("SystemMaxUse" in settings, "the journal may fill the disk")
    return f"at most {settings['SystemMaxUse']}"


def _disk(host: Host, _: Expected) -> str:
    used, inodes = output_of(host, "df --output=pcent,ipcent /var/lib/hermes").split()[-2:]
    # A file system that makes inodes as it goes says "-".
    fullest = max(int(figure.rstrip("%")) for figure in (used, inodes) if figure != "-")
    broken_unless(fullest < _FULL, f"{used} of the space and {inodes} of the inodes used")
    return f"{used} used"


_FULL = 90


def _api(host: Host, _: Expected) -> str:
    seen = observed(host)
    broken_unless(seen.alive_status == _OK, f"/health: {seen.alive_status or seen.alive_reason}")
    return f"/health answers, {seen.version}"


def _key(host: Host, expected: Expected) -> str:
    seen = observed(host)
    broken_unless(seen.key_digest, "there is no API key in /etc/hermes/.env")
    broken_unless(expected.key_digest in {"", seen.key_digest}, "the key on the machine is not the one in the registry")
    broken_unless(seen.detailed_status == _OK, f"/health/detailed with the machine's key: {seen.detailed_status}")
    return "accepted"


def _ready(host: Host, _: Expected) -> str:
    seen = observed(host)
    broken_unless(
        seen.verdict == "ok" and seen.gateway_state == "running",
        " ".join((seen.verdict or "no answer", seen.gateway_state, *seen.failing)),
    )
    return "ready, accepting turns"


def _watchdog(host: Host, _: Expected) -> str:
    watched = observed(host).unit.get("WatchdogUSec", "")
    broken_unless(watched not in {"", "0", "infinity"}, "systemd does not watch the gateway")
    return f"every {watched}"


def _model(host: Host, _: Expected) -> str:
    seen = observed(host)
    broken_unless(seen.has_model_key, f"{seen.key_variable or 'no variable'} is not set: the router's token is missing")
    broken_unless(
        seen.router_status == _OK, f"the model router answers {seen.router_status or 'nothing: ' + seen.router_reason}"
    )
    broken_unless(seen.model in seen.offered, f"model {seen.model!r} is none of {', '.join(seen.offered)}")
    return f"{seen.model}, token accepted"


def _skills(host: Host, _: Expected) -> str:
    seen = observed(host)
    broken_unless(seen.home_kept, f"{seen.home} lies on {seen.filesystem or '?'}: it is forgotten at every restart")
    broken_unless(seen.skills >= 1, f"no skills in {seen.home}/skills")
    return f"{seen.skills} skills, on {seen.filesystem}"


def _chat(host: Host, expected: Expected) -> str:
    chat = observed(host, f"chat {expected.session}").chat
    broken_unless(
        chat.get("status") == _OK and chat.get("answered"),
        f"a turn ended with {chat.get('status')}: {chat.get('error') or chat.get('finish') or 'no answer'}",
    )
    broken_unless(chat.get("session_removed"), f"session {expected.session} was left behind")
    return "answered"


PROMISES = (
    Promise("vendor-daemon", "the vendor's daemon runs", _daemon, "the vendor's watchdog brings it back in 2 minutes"),
    Promise(
        "gateway-service", "the gateway's unit runs", _gateway, "hermesops instance logs USER, then instance restart"
    ),
    Promise("sandbox-socket", "the sandbox can be entered", _sandbox_socket, _CONVERGE),
    Promise("firewall-service", "the firewall is loaded at every boot", _firewall_service, _CONVERGE),
    Promise("firewall", "nothing comes in but the vendor's broker", _firewall, _CONVERGE),
    Promise("sshd", "sshd is masked", _sshd, _CONVERGE),
    Promise(
        "ports", "nothing listens beyond loopback but the vendor's daemon", _ports, "find who started it; close it"
    ),
    Promise("units", "no unit has failed", _units, "hermesops instance exec USER 'systemctl status UNIT'"),
    Promise("release", "the running agent is the slot's", _release, "hermesops instance restart USER"),
    Promise("programs", "programs belong to root", _programs, _AGAIN),
    Promise("secrets", "files with secrets are private", _secrets, "hermesops provision USER hands them over again"),
    Promise("home", "the agent's home is private", _home, _CONVERGE),
    Promise("identity", "the machine knows whose it is", _identity, "stop, and compare with hermesops instance show"),
    Promise("memory", "the gateway's memory has a limit", _memory, _CONVERGE),
    Promise("sandbox", "scripts have 512 MB, 30 s and no network", _sandbox, _CONVERGE),
    Promise("hardening", "the gateway's unit is hardened", _hardening, _CONVERGE),
    Promise("journal", "the journal has a limit", _journal, _CONVERGE),
    Promise("disk", "the disk has room", _disk, "hermesops instance exec USER 'du -xd1 /var/lib/hermes'"),
    Promise("api", "the agent's API answers", _api, "hermesops instance logs USER"),
    Promise("key", "the agent accepts the registry's key", _key, "hermesops provision USER hands it over again"),
    Promise("ready", "the agent is ready for turns", _ready, "hermesops instance logs USER"),
    Promise("watchdog", "systemd watches the gateway", _watchdog, _CONVERGE),
    Promise(
        "model", "the model router knows token and model", _model, "hermesops provision USER hands them over again"
    ),
    Promise("skills", "skills and memories outlive a restart", _skills, _CONVERGE),
    Promise("chat", "a message is answered", _chat, "hermesops instance logs USER", slow=True),
)
"""Everything that is checked, in the order in which a person wants to read it."""

QUICK = tuple(promise for promise in PROMISES if not promise.slow)
"""Without the turn that asks the model."""

_NEED_A_USER = frozenset(
    {
        "gateway-service",
        "release",
        "secrets",
        "identity",
        "api",
        "key",
        "ready",
        "watchdog",
        "model",
        "skills",
        "chat",
    }
)
WITHOUT_USER = tuple(promise for promise in PROMISES if promise.name not in _NEED_A_USER)
"""What holds on a machine that belongs to nobody yet, as one from a new image."""
