"""A machine with the real agent goes over to a release that migrates its state, and comes back by itself."""

import json
import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hermesops.agents.instances.releases.rollback import roll_back_release
from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.base.waiting import Pending, until
from hermesops.errors import HermesError
from hermesops.programs.node.release.activation import History
from hermesops.wire.protocol import PROGRAM
from tests.support.images.builds import Made
from tests.support.real.machines.agents import Agent, living_agent, role_variables
from tests.support.real.machines.machine import base_python
from tests.support.releases.real_agents import RealReleases

pytestmark = pytest.mark.machines

ROLES = ("hermes_gateway", "hermes_node")
_CHAT = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", 8642, timeout=60)
headers = {"Authorization": "Bearer " + sys.argv[1], "X-Hermes-Session-Id": sys.argv[2]}
body = json.dumps({"model": "agent", "messages": [{"role": "user", "content": sys.argv[3]}]})
connection.request("POST", "/v1/chat/completions", body=body, headers=headers)
print(connection.getresponse().status)
"""
_OLDER = """# mine
_config_version: 20
model:
  context_length: 65536
custom_providers:
  - name: mine
    base_url: http://127.0.0.1:9/v1
"""
"""A user's configuration in the form of hermes-agent of before 0.18."""

_VISIT = 'import socket, time; visit = socket.create_connection(("127.0.0.1", 8642)); time.sleep(300)'
_CONFIG = "/var/lib/hermes/config.yaml"
_UNIT = "systemctl show hermes-release.service --property=ActiveState --value"


@pytest.fixture
async def agent(built_image: Made) -> AsyncIterator[Agent]:
    async with living_agent(built_image.world, built_image.image_id) as agent:
        yield agent


async def answer_to(agent: Agent, session: str, text: str) -> str:
    await agent.channel.put("/run/chat.py", _CHAT.encode())
    return await agent.run(f"python3 /run/chat.py {agent.api_server_key} {session} '{text}'", timeout_s=90)


async def say(agent: Agent, session: str, text: str) -> None:
    assert await answer_to(agent, session, text) == "200"


async def is_taken(agent: Agent, session: str, text: str) -> bool | Pending[bool]:
    code = await answer_to(agent, session, text)
    return code == "200" or Pending(code)


async def node(agent: Agent, words: str, *, code: int = 0) -> dict[str, Any]:
    done = await agent.channel.run(f"{PROGRAM} {words}", timeout_s=240)
    assert done.exit_code == code, done.text + done.stderr.decode()
    document: dict[str, Any] = json.loads(done.text.splitlines()[-1])
    return document


async def messages(agent: Agent) -> dict[str, Any]:
    messages: dict[str, Any] = (await node(agent, "state"))["state"]["messages"]
    return messages


async def waits(agent: Agent) -> bool | Pending[bool]:
    report = await node(agent, "status")
    phase = (report["releases"]["activation"] or {}).get("phase")
    return (phase == "prepared" and report["draining"]) or Pending(str(phase))


async def has_ended(agent: Agent) -> bool | Pending[bool]:
    state = await agent.run("systemctl show change --property=ActiveState --value")
    return state == "failed" or Pending(state)


@pytest.mark.turns(110)
async def test_a_machine_goes_over_to_a_release_and_back_and_nothing_that_was_said_is_lost(
    built_image: Made, agent: Agent, tmp_path: Path
) -> None:
    releases = RealReleases(built_image.workshop.releases, built_image.release, base_python(), tmp_path)
    newer = releases.newer()
    await say(agent, "before", "hello")
    before = await messages(agent)
    first = built_image.release.id
    assert (await node(agent, "release show"))["current"] == first
    await releases.deploy(agent.channel, newer)

    answer = await node(agent, f"release activate {newer.id} --confirm-within 30")
    assert (answer["state"], answer["from"], answer["rollback_method"]) == ("unconfirmed", first, "copy")
    assert [(check["name"], check["ok"]) for check in answer["checks"]] == [
        ("health", True),
        ("state", True),
        ("tools", True),
        ("turn", True),
    ]
    assert await messages(agent) == before, "what a machine asks its own agent is no message"
    assert await agent.run(_UNIT) == "active"
    await say(agent, "since", "said to the newer one")

    report = await node(agent, "release settle")  # as the unit does: whoever comes second finds nothing left
    history = History(**(json.loads(await agent.run("cat /etc/hermes-node/releases.json"))))
    assert history.last is not None
    assert history.last["outcome"] == "confirm_timed_out", report
    assert "nobody confirmed" in history.last["why"]
    assert history.last["rows_migrated"] > 0
    assert history.last["rows_listed"] > 0, "the newer one's own table has no place"
    assert (await node(agent, "release show"))["current"] == first
    assert (await messages(agent))["count"] == before["count"] + 2
    await say(agent, "since", "and now to the older one")
    assert (await messages(agent))["count"] == before["count"] + 4

    # The same again on an older configuration, which the newer one moves: asked back, the older one has its own again.
    await agent.channel.put(_CONFIG, _OLDER.encode(), mode=0o600)
    await agent.run(f"chown hermes:hermes {_CONFIG}")
    answer = await node(agent, f"release activate {newer.id} --confirm-within 60")
    assert answer["trial"][0]["name"] == "migration"
    moved = await agent.run(f"cat {_CONFIG}")
    assert "_config_version: 33" in moved
    assert "127.0.0.1:9" in moved, "nothing of the user's own is lost"
    assert (await node(agent, "release rollback"))["release"] == first
    assert (await agent.channel.get(_CONFIG)).decode() == _OLDER
    assert await agent.run(f"stat -c '%U %a' {_CONFIG}") == "hermes 600"

    # An agent that somebody is connected to is waited for; told that nobody wants that any more, it is left as it was.
    await agent.run(f"systemd-run --quiet --collect --unit=visitor python3 -c {shlex.quote(_VISIT)}")
    await agent.run(f"systemd-run --quiet --unit=change {PROGRAM} release activate {newer.id} --no-trial --drain 120")
    await until(lambda: waits(agent), what="it waits for the agent", timeout_s=60)
    await node(agent, "release cancel")
    await until(lambda: has_ended(agent), what="it is given up", timeout_s=10)
    assert await agent.run("systemctl show change --property=ExecMainStatus --value") == "7"
    assert not (await node(agent, "status"))["draining"]
    assert (await node(agent, "release show"))["current"] == first
    await agent.run("systemctl stop visitor; systemctl reset-failed change")
    # It looks once a second whether it still has to refuse them.
    await until(lambda: is_taken(agent, "since", "it takes turns again"), what="turns", timeout_s=10)

    # The same again, to stay: slots and units are hermes-node's alone.
    await node(agent, f"release activate {newer.id} --no-trial")
    await node(agent, f"release confirm {newer.id}")
    done = await built_image.world.apply(agent.machine_id, ROLES, role_variables(built_image.world))
    assert (done.status, done.changed) == ("done", ())
    assert (await node(agent, "health"))["ok"]


@pytest.mark.turns(130)
async def test_a_rollback_to_the_images_release_works_where_its_slot_and_its_files_were_lost(
    built_image: Made, agent: Agent, tmp_path: Path
) -> None:
    releases = RealReleases(built_image.workshop.releases, built_image.release, base_python(), tmp_path)
    other, first = releases.same("other"), built_image.release.id
    await releases.deploy(agent.channel, other)
    await node(agent, f"release activate {other.id} --no-trial")
    await node(agent, f"release confirm {other.id}")
    await say(agent, "before", "hello")
    before = await messages(agent)
    await agent.run(f"rm -rf /opt/hermes/releases/{first} /opt/hermes/blobs")
    assert (await node(agent, "release show"))["slots"] == [other.id]

    client = ReleaseClient(built_image.world.channel)
    done = await roll_back_release(
        client, agent.machine_id, built_image.workshop.bundle_of, to="", loses=False, title="the agent"
    )
    assert (done.release, done.before) == (first, other.id)
    assert (await node(agent, "release show"))["current"] == first
    assert (await node(agent, "release check"))["ok"]
    assert await messages(agent) == before
    await say(agent, "before", "hello again")


_OF_19 = """# mine
_config_version: 33
agent:
  max_turns: 17
"""


async def _config_is(agent: Agent, text: str) -> bool:
    return (await agent.channel.get(_CONFIG)).decode() == text


async def _set_turns(agent: Agent, before: int, after: int) -> None:
    """Change a setting as the agent itself does, in its own file."""
    change = f"s/max_turns: {before}/max_turns: {after}/"
    await agent.run(f"su -s /bin/sh hermes -c 'grep -q turns:.{before} {_CONFIG} && sed -i \"{change}\" {_CONFIG}'")


@pytest.mark.turns(45)
async def test_0_19_a_newer_one_and_0_19_again_each_have_the_users_configuration_and_all_that_was_said(
    built_image: Made, agent: Agent, tmp_path: Path
) -> None:
    releases = RealReleases(built_image.workshop.releases, built_image.release, base_python(), tmp_path)
    newer, first = releases.newer("0.21.0", schema=50), built_image.release.id
    await agent.channel.put(_CONFIG, _OF_19.encode(), mode=0o600)
    await agent.run(f"chown hermes:hermes {_CONFIG}")
    await say(agent, "before", "hello")
    count = (await messages(agent))["count"]
    await releases.deploy(agent.channel, newer)

    answer = await node(agent, f"release activate {newer.id} --confirm-within 200")
    assert (answer["trial"][0]["name"], answer["rollback_method"]) == ("migration", "copy")
    await node(agent, f"release confirm {newer.id}")
    assert "_config_version: 50" in await agent.run(f"cat {_CONFIG}")
    await say(agent, "since", "said to the newer one")
    await agent.run("su -s /bin/sh hermes -c 'echo Likes herons. > /var/lib/hermes/memories/USER.md'")
    await _set_turns(agent, 17, 23)

    done = await node(agent, "release rollback --drain 30")
    assert (done["release"], done["settings_migrated"], done["settings_lost"]) == (first, 1, [])
    assert await _config_is(agent, _OF_19.replace("17", "23"))
    assert (await messages(agent))["count"] == count + 2
    assert "herons" in await agent.run("cat /var/lib/hermes/memories/USER.md")
    await say(agent, "since", "and now to the older one")

    # Once more, and then the older release comes as any other does: by its own activation, not as the way back.
    await node(agent, f"release activate {newer.id} --no-trial --confirm-within 200")
    await node(agent, f"release confirm {newer.id}")
    await say(agent, "since", "once more to the newer one")
    await _set_turns(agent, 23, 29)
    answer = await node(agent, f"release activate {first} --confirm-within 200")
    assert (answer["release"], answer["rollback_method"], answer["settings_migrated"]) == (first, "copy", 1)
    assert await _config_is(agent, _OF_19.replace("17", "29"))
    await node(agent, f"release confirm {first}")
    assert (await messages(agent))["count"] == count + 6
    await say(agent, "before", "hello again")

    # What looks at its memory finds a small one, and leaves it alone.
    started = await agent.run("systemctl show -P ActiveEnterTimestampMonotonic hermes-gateway.service")
    await agent.run("systemctl start hermes-relief.service", timeout_s=120)
    assert (await agent.run("systemctl show -P Result hermes-relief.service")).strip() == "success"
    assert await agent.run("systemctl show -P ActiveEnterTimestampMonotonic hermes-gateway.service") == started
    assert (await agent.run("systemctl is-enabled hermes-relief.timer")).strip() == "enabled"


_LISTS = "find / /var/lib/hermes -xdev"
_OF_UNITS = "^/(run|tmp|var/tmp) |/var/tmp/systemd-private-"
_IDLE = f"{_OF_UNITS}|/var/log/journal/|/var/lib/hermes( |/(logs|state|cron|kanban.db))"
"""Written on a machine that has nothing to do: for units with a /tmp of their own and for a command of the toolbox, by
its journal, and by its agent."""

_DIGEST = (
    f"{{ {_LISTS} -printf '%p %y %m %U:%G %T@ %s %l\\n'; {_LISTS} -type f -print0 | xargs -0 sha256sum; }}"
    f" | grep -vE '{_IDLE}' | sort -u"
)
"""Content, mode, owner and time of all other files and folders."""

_RENAMED = _OLDER.replace("_config_version: 20", "_config_version: 10") + "agent:\n  max_turns: 17\n"
"""A configuration of which the migration renames the user's own provider."""


_LOST = ("providers.mine.api",)


async def _differences(agent: Agent) -> str:
    """The differences of the machine's files since ``/run/before`` was made."""
    await agent.run(f"{_DIGEST} >/run/after", timeout_s=300)
    return (await agent.channel.run("diff /run/before /run/after", timeout_s=60)).text


async def _refused(slots: ReleaseClient, agent: Agent, node_instead: str, *, timeout_s: float = 20) -> str:
    """The problem of a preview, where a script is the machine's hermes-node."""
    await agent.channel.put(f"{PROGRAM}.fake", f"#!/bin/sh\n{node_instead}\n".encode(), mode=0o755)
    await agent.run(f"mv {PROGRAM} {PROGRAM}.real && mv {PROGRAM}.fake {PROGRAM}")
    try:
        with pytest.raises(HermesError) as problem:
            await slots.preview_activation(agent.machine_id, 33, timeout_s=timeout_s)
    finally:
        await agent.run(f"mv {PROGRAM}.real {PROGRAM}")
    return problem.value.message


@pytest.mark.turns(80)
async def test_a_preview_of_an_older_release_names_the_settings_lost_and_changes_nothing(
    built_image: Made, agent: Agent, tmp_path: Path
) -> None:
    releases = RealReleases(built_image.workshop.releases, built_image.release, base_python(), tmp_path)
    newer, slots = releases.newer("0.21.0", schema=50), ReleaseClient(built_image.world.channel)
    await agent.channel.put(_CONFIG, _RENAMED.encode(), mode=0o600)
    await agent.run(f"chown hermes:hermes {_CONFIG}")
    await releases.deploy(agent.channel, newer)
    await node(agent, f"release activate {newer.id} --no-trial --confirm-within 200")
    await node(agent, f"release confirm {newer.id}")
    assert (await slots.preview_activation(agent.machine_id, 33, timeout_s=20)).settings_lost == ()
    await _set_turns(agent, 17, 23)
    await agent.run(f"sed -i s,127.0.0.1:9,127.0.0.1:10, {_CONFIG}")
    await agent.run(f"{_DIGEST} >/run/before", timeout_s=300)
    preview = await slots.preview_activation(agent.machine_id, 33, timeout_s=20)
    assert (preview.before, preview.settings_lost, preview.settings_migrated) == (newer.id, _LOST, 1)
    assert await _differences(agent) == "", "a preview changes nothing"

    # A hermes-node that hangs, or whose answer is none, is a problem, and never the answer that nothing is lost.
    assert "reached its time limit" in await _refused(slots, agent, "exec sleep 600", timeout_s=3)
    assert "malformed answer" in await _refused(slots, agent, 'echo \'{"settings_lost": "none"}\'')
    assert "malformed answer" in await _refused(slots, agent, "echo '{}'")
    assert "malformed answer" in await _refused(slots, agent, "echo ready")
    assert "release preview" in await _refused(slots, agent, "kill -9 $$")
    assert "release preview" in await _refused(slots, agent, "head -c 30000000 /dev/zero | tr '\\0' x")
