"""A channel to no machine: it answers what one prints that keeps every promise, but for what a test has broken."""

import base64
import copy
import json
import shlex
from typing import Any

from hermesops.machines.verify.checks.machine import DROP_INS
from hermesops.machines.verify.on_machine import BATCH, OBSERVER, PYTHON
from hermesops.vendor.channel import Completed

KEY_DIGEST = "d" * 64
INSTANCE = "0c4f4ab6-4ff9-4bb4-bd2c-9c9b2ac1a001"

HEALTHY_OBSERVATION: dict[str, Any] = {
    "unit": {
        "ActiveState": "active",
        "SubState": "running",
        "Result": "success",
        "NRestarts": "0",
        "MainPID": "77",
        "Type": "notify",
        "WatchdogUSec": "30s",
        "ActiveEnterTimestampMonotonic": "9000000",
        "ExecMainStartTimestampMonotonic": "7000000",
    },
    "identity": {"instance": INSTANCE, "user": "u", "plan": "light", "cell": "cell1", "epoch": 1},
    "release": {"id": "0.19.0-abc", "hermes_agent": "0.19.0"},
    "handed": True,
    "alive": {"status": 200, "version": "0.19.0", "reason": ""},
    "key_digest": KEY_DIGEST,
    "detailed": {"status": 200, "verdict": "ok", "state": "running", "failing": []},
    "model": {
        "name": "claude-haiku",
        "key_variable": "TOKEN",
        "has_key": True,
        "router_status": 200,
        "offered": ["claude-haiku", "gpt-4o"],
        "reason": "",
    },
    "home": {
        "promised": "/var/lib/hermes",
        "used": "/var/lib/hermes",
        "filesystem": "ext4",
        "skills": 73,
        "bundled": 73,
        "settings": 512,
    },
}
HEALTHY_CHAT: dict[str, Any] = {"status": 200, "answered": True, "finish": "stop", "error": "", "session_removed": True}

_FIREWALL = {
    "nftables": [
        {"metainfo": {}},
        {"chain": {"hook": "input", "policy": "drop"}},
        {
            "rule": {
                "expr": [
                    {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "lo"}},
                    {"accept": None},
                ]
            }
        },
        {
            "rule": {
                "expr": [
                    {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 1}},
                    {"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "@b"}},
                    {"accept": None},
                ]
            }
        },
        {"rule": {"expr": [{"drop": None}]}},
    ]
}
_EGRESS = {
    "nftables": [
        {"chain": {"hook": "output", "policy": "accept"}},
        *(
            {
                "rule": {
                    "expr": [
                        {"match": {"op": "!=", "left": {"meta": {"key": "skuid"}}, "right": 0}},
                        {
                            "match": {
                                "op": "==",
                                "left": {"payload": {"protocol": "ip", "field": "any"}},
                                "right": right,
                            }
                        },
                        {"reject": {"type": "icmp", "expr": "port-unreachable"}},
                    ]
                }
            }
            for right in (
                3300,
                {"prefix": {"addr": "169.254.0.0", "len": 16}},
                {"set": ["fd00:ec2::254", {"prefix": {"addr": "fe80::", "len": 10}}]},
            )
        ),
    ]
}
_SOCKETS = """
tcp LISTEN 0 128 127.0.0.1:8642 0.0.0.0:* users:(("python",pid=77,fd=9))
tcp LISTEN 0 128 10.0.0.2:3300 0.0.0.0:* users:(("justavps-daemon",pid=9,fd=3))
"""
_RUNNING = {"LoadState": "loaded", "ActiveState": "active", "UnitFileState": "enabled", "MainPID": "9"}
_YES = ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "PrivateUsers", "RestrictNamespaces")
HEALTHY_UNITS: dict[str, dict[str, str]] = {
    "justavps-daemon.service": _RUNNING,
    "hermes-gateway.service": {
        **_RUNNING,
        **dict.fromkeys(_YES, "yes"),
        "ProtectSystem": "strict",
        "CapabilityBoundingSet": "",
        "User": "hermes",
        "MemoryCurrent": "230686720",
        "MemoryMax": "2147483648",
        "TasksMax": "512",
        "DropInPaths": "/etc/systemd/system/hermes-gateway.service.d/data.conf",
    },
    "hermes-sandbox.socket": _RUNNING,
    "hermes-sandbox@verify.service": {
        "MemoryMax": "536870912",
        "LimitAS": "536870912",
        "RestrictAddressFamilies": "AF_UNIX",
        "NoNewPrivileges": "yes",
        "RuntimeMaxUSec": "32s",
    },
    "hermes-firewall.service": _RUNNING,
    "hermes-identity.service": {"ActiveState": "inactive", "UnitFileState": "enabled"},
    "hermes-certificate.timer": _RUNNING,
    "hermes-orders.timer": _RUNNING,
    "hermes-databases.timer": _RUNNING,
    "hermes-metrics.timer": _RUNNING,
    "hermes-recovery.timer": _RUNNING,
    "hermes-monitoring.target": _RUNNING,
    "ssh.service": {"LoadState": "masked"},
    "ssh.socket": {"LoadState": "masked"},
}
_MODES = """
/etc/hermes root:hermes 750
/etc/hermes/.env root:hermes 640
/etc/hermes/config.yaml root:hermes 640
/etc/hermes-node root:root 700
/etc/hermes-node/gateway.json root:root 600
/etc/hermes-node/identity.json root:root 600
/etc/hermes-node/instance.json root:root 600
"""

_LIBRARY = "/opt/hermes/releases/0.19.0-0123456789ab/venv/lib/python3.11/site-packages/libsqlite3-3.53.4-x86_64.so"

HEALTHY: dict[str, tuple[int, str]] = {
    "hermes-node sqlite": (0, json.dumps({"pid": 7, "path": _LIBRARY, "version": "3.53.4", "node": "3.53.4"})),
    "nft --json list chain inet hermes output": (0, json.dumps(_EGRESS)),
    "nft --json": (0, json.dumps(_FIREWALL)),
    "systemctl list-units": (0, ""),
    "ss ": (0, _SOCKETS.strip()),
    "find -H": (0, ""),
    "runuser -u hermes -- /opt": (0, "Python 3.11.2\n/usr/bin/python3.11\n/usr/bin/python3.11\n"),
    "find /etc/hermes-node": (0, ""),
    "ls /opt/hermes/current/venv": (0, "/opt/hermes/current/venv/lib/python3.11/site-packages/hermes-sandbox.pth"),
    "stat --format='%n %U:%G %a' /etc": (0, _MODES.strip()),
    "stat --format='%n %U:%G %a' /var": (
        0,
        "/var/lib/hermes hermes:hermes 700\n/var/lib/hermes/memories hermes:hermes 700\n",
    ),
    "stat --format=%n ": (0, "\n".join(DROP_INS)),
    "journalctl ": (0, "Starting hermes-gateway.service\nStarted hermes-gateway.service\n"),
    "LC_ALL=C; export LC_ALL; set --": (0, ""),
    "cat /etc/systemd/journald": (0, "[Journal]\nSystemMaxUse=500M\n"),
    "env --unset=TZ date": (0, "UTC\n"),
    "getent passwd hermes-backup": (0, "hermes-backup:x:998:998::/nonexistent:/usr/sbin/nologin\n"),
    "stat --format='%U %a' /usr/bin/restic": (0, "root 755\n"),
    "df ": (0, "Use% IUse% Used 1B-blocks\n 12%    3% 4800000000 40000000000\n"),
    "grep -c '^HERMES_DATA_GB=": (0, "1\n"),
    "findmnt --noheadings --output SOURCE": (0, "/dev/mapper/hermes-data\n"),
    "curl --silent --fail --max-time 10 http://127.0.0.1:9100/metrics": (0, "# TYPE node_load1 gauge\nnode_load1 1\n"),
}
"""What a command that begins so answers: exit code and output. The first fitting one counts."""


class PromisingMachine:
    """Answers the commands of ``hermesops.machines.verify`` by heart; a simulated machine runs none of them.

    Attributes:
        answers: As ``HEALTHY``; a test changes its own copy.
        units: What systemd shows.
        observe: What the observer sees.
        chat: What the turn of the observer comes to.
        runs: The commands that came over the channel.
    """

    def __init__(self) -> None:
        self.answers = dict(HEALTHY)
        self.units = copy.deepcopy(HEALTHY_UNITS)
        self.observe = copy.deepcopy(HEALTHY_OBSERVATION)
        self.chat = dict(HEALTHY_CHAT)
        self.runs: list[str] = []
        self.too_slow: set[str] = set()

    @property
    def machine_id(self) -> str:
        """Which machine."""
        return "m-1"

    async def run(self, command: str, **_options: object) -> Completed:
        """Answer one command, or a batch of them."""
        self.runs.append(command)
        words = shlex.split(command)
        if BATCH not in words:
            return self._answer(command)
        commands = [shlex.join([*PYTHON, *each]) if isinstance(each, list) else each for each in json.loads(words[-1])]
        answers = [None if self._is_slow(each) else self._encoded(each) for each in commands]
        return Completed(0, json.dumps(answers).encode(), b"")

    def _encoded(self, command: str) -> list[int | str]:
        answer = self._answer(command)
        return [
            answer.exit_code,
            base64.b64encode(answer.stdout).decode(),
            base64.b64encode(answer.stderr).decode(),
        ]

    def _is_slow(self, command: str) -> bool:
        return any(command.startswith(slow) for slow in self.too_slow)

    def _answer(self, command: str) -> Completed:
        words = shlex.split(command)
        if OBSERVER in words:
            return Completed(0, json.dumps(self.observe if words[-1] == "observe" else self.chat).encode(), b"")
        if command.startswith("systemctl show"):
            blocks = (
                "\n".join(f"{name}={value}" for name, value in {"Id": unit, **properties}.items())
                for unit, properties in self.units.items()
            )
            return Completed(0, "\n\n".join(blocks).encode(), b"")
        for beginning, (code, output) in self.answers.items():
            if command.startswith(beginning):
                return Completed(code, output.encode(), b"")
        return Completed(127, b"", b"sh: not found")
