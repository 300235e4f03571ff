"""A machine with the real agent that warms up as nobody's and becomes a user's: same process, and nothing left over."""

import json
import secrets
import shlex
import time
from uuid import uuid4

import pytest

from hermesops.model.billing.route import issue_token
from hermesops.model.ids import InstanceId
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import PROGRAM, Identity, Payload, Secrets
from hermesops.wire.settings import Settings
from tests.support.images.builds import Made
from tests.support.real.machines.agents import Agent

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]

_PID = "systemctl show hermes-gateway --property=MainPID --value"
_ASK = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", 8642, timeout=60)
headers = {"Authorization": "Bearer " + sys.argv[1], "Content-Type": "application/json"}
body = {"model": "agent", "stream": False, "messages": [{"role": "user", "content": "hello"}]}
connection.request("POST", "/v1/chat/completions", body=json.dumps(body), headers=headers)
response = connection.getresponse()
print(response.status, response.read().decode())
"""


async def test_a_warm_machine_becomes_a_users_without_a_restart_and_no_placeholder_is_used_after(
    built_image: Made,
) -> None:
    world = built_image.world
    url = world.cloud.where.model_base_url
    async with world.machine(image_id=built_image.image_id) as machine_id:
        channel = world.channel(machine_id)
        done = await channel.run(f"{PROGRAM} warm --model-base-url {url} --wait 60", timeout_s=120)
        assert done.exit_code == 0, done.stderr.decode()
        placeholder = Payload.from_json(await channel.get(str(Layout().warm)))
        instance_id = InstanceId(str(uuid4()))
        key = placeholder.secrets.api_server_key
        token = issue_token(world.cloud.model_secret, instance_id, 1, int(time.time()) + 3600)
        payload = Payload(
            Identity(instance_id, str(uuid4()), "light", "cell1", 1), Secrets(key, token), url, Settings(model="gpt-4o")
        )
        agent = Agent(channel, machine_id, instance_id, payload, key)
        status = json.loads(await agent.run(f"{PROGRAM} status"))
        assert (status["identity"], status["warm"]) == (None, True)
        before = await agent.run(_PID)
        nothing = json.loads(await agent.run(f"{PROGRAM} state", timeout_s=60))["state"]
        assert {part: held["count"] for part, held in nothing.items() if part in {"sessions", "messages", "cron"}} == {
            "sessions": 0,
            "messages": 0,
            "cron": 0,
        }
        await agent.personalise()
        assert await agent.run(_PID) == before
        report = await agent.run(f"python3 -c {shlex.quote(_ASK)} {key}", timeout_s=90)
        assert report.startswith("200 ")
        assert "YOU SAID: hello" in report
        stranger = secrets.token_urlsafe(32)
        for other in (placeholder.secrets.model_token, stranger):
            assert (await agent.run(f"python3 -c {shlex.quote(_ASK)} {other}")).startswith("401 ")
        left = f"grep -rlF -- {placeholder.secrets.model_token} /etc /var/lib/hermes /run/hermes-node || true"
        assert await agent.run(left) == ""
        status = json.loads(await agent.run(f"{PROGRAM} status"))
        assert (status["identity"]["instance"], status["warm"], status["restart_needed"]) == (instance_id, False, False)
