"""A machine in a folder with an agent's home in it, for hermes-node's work on the agent's state."""

import getpass
import json
import secrets
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermesops.programs.node import build
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import Identity, Payload, Secrets
from hermesops.wire.settings import Settings
from tests.support.fakes.machines.node_system import KEY, FakeSystem

PASSWORD = secrets.token_hex(16)

_SCHEMA = """
PRAGMA journal_mode=WAL;
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, user_id TEXT, parent_session_id TEXT, title TEXT,
  started_at REAL, ended_at REAL, message_count INTEGER, model TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT, content TEXT,
  tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL, token_count INTEGER);
"""


@dataclass
class NodeHome:
    """See the module.

    Attributes:
        repository: A folder that restic may keep backups in.
    """

    layout: Layout
    system: FakeSystem
    repository: Path

    @property
    def node(self) -> Machine:
        return Machine(self.layout, system=self.system, slots=DiskSlots(self.layout))

    @property
    def home(self) -> Path:
        return self.layout.root / "var/lib/hermes"

    def upload(self, **fields: object) -> Path:
        """Put a payload of ``backup`` or ``restore`` where it is uploaded to."""
        path = self.layout.root / "run/hermes-node/payload.json"
        content = {"version": 1, "repository": str(self.repository), "password": PASSWORD, "tags": ["daily"], **fields}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        path.write_text(json.dumps(content))
        return path

    def personalised(self, *, epoch: int = 1, instance: str = "i-1", settings: Settings | None = None) -> Path:
        """Put a payload of ``personalise`` where it is uploaded to."""
        path = self.layout.root / "run/personalise.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        identity, secrets = Identity(instance, "u-1", "light", "c1", epoch), Secrets(KEY, "hm1.i-1.1." + "a" * 40)
        payload = Payload(identity, secrets, "http://10.0.0.1/v1", settings or Settings())
        path.write_bytes(payload.to_json())
        return path

    def say(self, *texts: str) -> None:
        """Add messages to the agent's database, which stays in WAL mode as the agent leaves it."""
        database = sqlite3.connect(self.home / "state.db")
        for text in texts:
            database.execute(
                "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s1', 'user', ?, 2.5)", (text,)
            )
        database.commit()
        database.close()


def bare(root: Path, **changes: object) -> Layout:
    """A machine without an agent's home, whose gateway has these settings beside the usual ones."""
    for folder in ("etc/hermes", "etc/hermes-node", "run", "var/lib/hermes", "opt/hermes/node"):
        (root / folder).mkdir(parents=True)
    base: dict[str, Any] = {
        "unit": "hermes-gateway.service",
        "user": getpass.getuser(),
        "home": "/var/lib/hermes",
        "port": 8642,
        "routes": [{"name": "claude-haiku", "context_tokens": 200000}],
        "adapters": ["telegram-platform"],
        "config": {},
        "environment": {},
        "user_config": {"_config_version": 33},
    }
    layout = Layout(root)
    layout.base.write_text(json.dumps(base | changes))
    return layout


def make(root: Path, *, runs_processes: bool = True) -> NodeHome:
    """A machine with an agent that knows a few things.

    Args:
        root: Its folder.
        runs_processes: Whether there is a program for them, which takes a second to build.
    """
    layout = bare(root)
    if runs_processes:
        build.write(layout.program)
    machine = NodeHome(layout, FakeSystem(), root / "repository")
    furnish(machine.home)
    machine.say("My sister is called Ada", "She is in Paris")
    return machine


def furnish(home: Path) -> None:
    """Give an agent memory, a skill, a session, a job and a pairing."""
    for folder in ("memories", "skills/weather", "cron", "pairing", "logs"):
        (home / folder).mkdir(parents=True)
    (home / "SOUL.md").write_text("Be brief.")
    (home / "memories/USER.md").write_text("Has a sister.")
    (home / "skills/weather/SKILL.md").write_text("---\nname: weather\ndescription: Tells it\n---\nLook outside.\n")
    job = {"id": "j1", "name": "morning", "prompt": "Say hello", "schedule": {"kind": "cron", "expr": "0 9 * * *"}}
    (home / "cron/jobs.json").write_text(json.dumps({"jobs": [{**job, "enabled": True, "last_run_at": None}]}))
    (home / "pairing/telegram-approved.json").write_text(json.dumps({"77": {"user_name": "ada"}}))
    database = sqlite3.connect(home / "state.db")
    database.executescript(_SCHEMA)
    database.execute("INSERT INTO sessions (id, source, title, started_at) VALUES ('s1', 'telegram', 'Family', 1.5)")
    database.commit()
    database.close()
