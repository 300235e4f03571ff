"""What the vendor's API does, as far as public evidence goes; the local server must do the same."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from hermesops.base.waiting import Pending, pause, until
from tests.support.fakes.loopback import Recorder, event_source, recorder
from tests.support.fakes.machines.driver import PretendDriver
from tests.support.worlds.local.local_server import LocalCloud

MACHINE_FIELDS = {
    "id", "slug", "name", "status", "provisioning_stage", "provider", "image_id", "server_type", "region", "ip",
    "price_monthly", "backups_enabled", "created_at", "ready_at", "urls", "ssh", "ssh_key", "connect", "health",
}  # fmt: skip


@pytest.fixture
async def service() -> AsyncIterator[Recorder]:
    async with recorder() as up:
        yield up


def assert_vendor_error(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status
    body = answer.json()
    assert body["error"] is True
    assert body["status"] == status
    assert isinstance(body["message"], str)


class TestKeys:
    @pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic x"])
    async def test_nobody_gets_in_without_the_key(self, cloud: LocalCloud, header: str | None) -> None:
        headers = {"Authorization": header} if header else {}
        async with httpx.AsyncClient(base_url=cloud.where.api_url, headers=headers) as stranger:
            for path in ("/api/v1/machines", "/api/v1/account", "/local/status", "/api/v1/server-typesx"):
                assert_vendor_error(await stranger.get(path), 401)

    async def test_what_is_sold_is_shown_to_everybody(self, cloud: LocalCloud) -> None:
        async with httpx.AsyncClient(base_url=cloud.where.api_url) as stranger:
            sold = (await stranger.get("/api/v1/server-types", params={"region": "hel1"})).json()
            assert {kind["name"] for kind in sold["server_types"]} >= {"starter", "basic", "pro"}
            assert all(kind["available"] for kind in sold["server_types"])
            assert (await stranger.get("/api/v1/server-types/regions")).json()["regions"][0]["id"] == "hel1"
            assert (await stranger.get("/api/v1/server-types/providers")).json()["providers"][0]["name"] == "cloud"
            assert_vendor_error(await stranger.get("/api/v1/server-types"), 400)

    async def test_keys_are_readable_by_their_owner_only(self, cloud: LocalCloud) -> None:
        for name in ("api.key", "model.key", "world.json", "world.db"):
            assert (cloud.folder / name).stat().st_mode & 0o777 == 0o600


class TestMachines:
    async def test_an_order_is_accepted_then_the_machine_comes_up(self, cloud: LocalCloud) -> None:
        ordered = await cloud.order("edge-1", env_vars={"A": "it's"})
        assert set(ordered) >= MACHINE_FIELDS
        assert (ordered["status"], ordered["ready_at"], ordered["name"]) == ("provisioning", None, "edge-1")
        ready = await cloud.becomes(ordered["id"], "ready")
        assert (ready["provisioning_stage"], ready["ip"]) == ("services_ready", "127.0.0.1")
        assert ready["urls"]["port_template"] == f"http://{{port}}--{ready['slug']}.localhost:{cloud.port}"

    async def test_every_answer_carries_a_private_key_of_its_own(self, cloud: LocalCloud) -> None:
        first, two = await cloud.order("a"), await cloud.order("b")
        listed = (await cloud.http.get("/api/v1/machines")).json()["machines"]
        keys = {machine["ssh_key"]["private_key"] for machine in [first, two, *listed]}
        assert len(keys) == 2
        assert all(key.startswith("-----BEGIN OPENSSH PRIVATE KEY-----") for key in keys)

    async def test_names_are_not_unique_and_every_machine_is_listed(self, cloud: LocalCloud) -> None:
        ordered = [await cloud.order("twin") for _ in range(2)]
        listed = (await cloud.http.get("/api/v1/machines")).json()["machines"]
        assert [machine["id"] for machine in listed] == [machine["id"] for machine in ordered]
        assert {machine["name"] for machine in listed} == {"twin"}

    async def test_deleting_leaves_nothing_and_a_second_time_finds_nothing(
        self, cloud: LocalCloud, driver: PretendDriver
    ) -> None:
        machine = await cloud.ready()
        path = f"/api/v1/machines/{machine['id']}"
        answer = await cloud.http.delete(path)
        assert (answer.status_code, answer.content) == (204, b"")
        assert driver.machines == {}
        assert_vendor_error(await cloud.http.delete(path), 404)
        assert_vendor_error(await cloud.http.get(path), 404)
        assert (await cloud.http.get("/api/v1/machines")).json() == {"machines": []}

    @pytest.mark.parametrize(
        ("fields", "status"),
        [
            ({"server_type": ""}, 400),
            ({"server_type": "cx23"}, 422),
            ({"region": "moon"}, 422),
            ({"provider": "hetzner"}, 422),
            ({"env_vars": {"A": 1}}, 400),
            ({"env_vars": ["A"]}, 400),
            ({"image_id": "nonsense"}, 400),
            ({"image_id": "00000000-0000-4000-8000-000000000000"}, 404),
            ({"name": "x" * 200}, 400),
        ],
    )
    async def test_an_impossible_order_makes_nothing(
        self, cloud: LocalCloud, driver: PretendDriver, fields: dict[str, object], status: int
    ) -> None:
        body = {"server_type": "starter", "region": "hel1", "name": "x", **fields}
        assert_vendor_error(await cloud.http.post("/api/v1/machines", json=body), status)
        assert (await cloud.http.get("/api/v1/machines")).json() == {"machines": []}
        assert "create" not in " ".join(driver.calls)

    @pytest.mark.parametrize("body", [b"{", b"[]", b"\xff"])
    async def test_a_body_that_is_no_object_is_refused(self, cloud: LocalCloud, body: bytes) -> None:
        assert_vendor_error(await cloud.http.post("/api/v1/machines", content=body), 400)

    async def test_an_order_beyond_what_fits_is_refused_with_the_figure(
        self, cloud: LocalCloud, driver: PretendDriver
    ) -> None:
        driver.places = 2
        await asyncio.gather(cloud.order("a"), cloud.order("b"))
        answer = await cloud.http.post(
            "/api/v1/machines", json={"server_type": "starter", "region": "hel1", "name": "c"}
        )
        assert_vendor_error(answer, 422)
        assert "places free" in answer.json()["message"]

    async def test_stop_and_start_are_accepted_while_the_old_status_still_shows(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready()
        path = f"/api/v1/machines/{machine['id']}"
        stop = await cloud.http.post(f"{path}/stop")
        assert (stop.status_code, stop.json()["status"]) == (202, "ready")
        await cloud.becomes(machine["id"], "stopped")
        start = await cloud.http.post(f"{path}/start")
        assert (start.status_code, start.json()["status"]) == (202, "stopped")
        again = await cloud.becomes(machine["id"], "ready")
        assert again["ssh_key"] == machine["ssh_key"]

    async def test_a_reboot_never_shows_in_the_status(self, cloud: LocalCloud, driver: PretendDriver) -> None:
        machine = await cloud.ready()

        async def rebooted() -> bool | Pending[bool]:
            return driver.machines[machine["id"]].boots == 2 or Pending("not yet")

        answer = await cloud.http.post(f"/api/v1/machines/{machine['id']}/reboot")
        assert (answer.status_code, answer.json()) == (202, {"action": "reboot", "status": "ready"})
        assert (await cloud.http.get(f"/api/v1/machines/{machine['id']}")).json()["status"] == "ready"
        await until(rebooted, what="the reboot", timeout_s=10, every_s=0.01)
        assert driver.calls.count("reboot") == 1

    async def test_the_status_stream_tells_the_stages_and_ends(self, cloud: LocalCloud, driver: PretendDriver) -> None:
        driver.boot_s = 0.3
        machine = await cloud.order()
        async with cloud.http.stream("GET", f"/api/v1/machines/{machine['id']}/status/stream") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = [line async for line in stream.aiter_lines() if line]
        events = [line.removeprefix("event: ") for line in lines[::2]]
        data = [json.loads(line.removeprefix("data: ")) for line in lines[1::2]]
        assert (events[:2], events[-1]) == (["stage", "status"], "done")
        assert data[-1] == {"status": "ready"}

    async def test_unknown_paths_and_methods_have_the_same_shape(self, cloud: LocalCloud) -> None:
        assert_vendor_error(await cloud.http.get("/api/v1/nothing"), 404)
        assert_vendor_error(await cloud.http.put("/api/v1/machines", json={}), 405)
        assert_vendor_error(await cloud.http.get("/elsewhere"), 404)


class TestImages:
    async def test_an_image_is_creating_then_ready_with_the_providers_id(
        self, cloud: LocalCloud, driver: PretendDriver
    ) -> None:
        driver.image_gate = asyncio.Event()
        machine = await cloud.ready()
        taken = await cloud.http.post(f"/api/v1/machines/{machine['id']}/image", json={"name": "base"})
        assert taken.status_code == 202
        image = taken.json()
        assert (image["status"], image["provider_image_id"], image["disk_size_gb"]) == ("creating", None, 80)
        body = {"server_type": "starter", "region": "hel1", "name": "early", "image_id": image["id"]}
        assert_vendor_error(await cloud.http.post("/api/v1/machines", json=body), 422)
        driver.image_gate.set()
        path = f"/api/v1/images/{image['id']}"
        shown = await cloud.image_ends(image["id"])
        assert (shown["status"], bool(shown["provider_image_id"])) == ("ready", True)
        assert (await cloud.http.get("/api/v1/images")).json()["images"] == [shown]

        booted = await cloud.ready("from-image", image_id=image["id"])
        assert booted["image_id"] == image["id"]
        assert_vendor_error(await cloud.http.delete(path), 409)
        await cloud.http.delete(f"/api/v1/machines/{booted['id']}")
        assert (await cloud.http.delete(path)).status_code == 204
        assert_vendor_error(await cloud.http.get(path), 404)

    async def test_an_image_of_a_bigger_disk_does_not_boot_on_a_smaller_type(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready(server_type="basic")
        image = (await cloud.http.post(f"/api/v1/machines/{machine['id']}/image", json={"name": "big"})).json()
        await cloud.image_ends(image["id"])
        body = {"server_type": "starter", "region": "hel1", "image_id": image["id"]}
        answer = await cloud.http.post("/api/v1/machines", json=body)
        assert_vendor_error(answer, 422)
        assert "image disk is bigger than server type disk" in answer.json()["message"]

    async def test_only_a_ready_machine_can_be_imaged(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready()
        await cloud.http.post(f"/api/v1/machines/{machine['id']}/stop")
        await cloud.becomes(machine["id"], "stopped")
        path = f"/api/v1/machines/{machine['id']}/image"
        assert_vendor_error(await cloud.http.post(path, json={"name": "late"}), 400)

    async def test_a_failed_image_says_why(self, cloud: LocalCloud, driver: PretendDriver) -> None:
        driver.image_gate = asyncio.Event()
        machine = await cloud.ready()
        image = (await cloud.http.post(f"/api/v1/machines/{machine['id']}/image", json={"name": "x"})).json()
        await cloud.http.delete(f"/api/v1/machines/{machine['id']}")
        driver.image_gate.set()
        shown = await cloud.image_ends(image["id"])
        assert shown["status"] == "failed"
        assert "no machine" in shown["description"]


class TestToolbox:
    async def test_a_command_runs_by_both_paths(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready()
        for path in ("exec", "toolbox/process/execute"):
            answer = await cloud.http.post(
                f"/api/v1/machines/{machine['id']}/{path}", json={"command": "echo out; echo err >&2; exit 3"}
            )
            assert answer.status_code == 200
            assert answer.json().items() >= {"stdout": "out\n", "stderr": "err\n", "exit_code": 3}.items()
            assert isinstance(answer.json()["duration_ms"], int)

    async def test_the_daemons_errors_come_through_in_its_own_shape(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready()
        path = f"/api/v1/machines/{machine['id']}/toolbox"
        late = await cloud.http.post(f"{path}/process/execute", json={"command": "sleep 9", "timeout": 0.2})
        assert (late.status_code, set(late.json())) == (408, {"error", "code"})
        missing = await cloud.http.get(f"{path}/files/download", params={"path": "/nowhere/at all"})
        assert (missing.status_code, set(missing.json())) == (404, {"error", "code"})

    async def test_output_streams_while_the_command_still_runs(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready()
        loop = asyncio.get_running_loop()
        async with cloud.http.stream(
            "POST",
            f"/api/v1/machines/{machine['id']}/toolbox/process/execute/stream",
            json={"command": "echo first; sleep 1; echo last"},
        ) as stream:
            events = [(loop.time(), line) async for line in stream.aiter_lines() if line.startswith("event: ")]
        assert [line for _, line in events] == ["event: stdout", "event: stdout", "event: exit"]
        assert events[1][0] - events[0][0] > 0.5

    async def test_files_of_any_bytes_and_many_of_them_go_both_ways(self, cloud: LocalCloud, tmp_path: Path) -> None:
        machine = await cloud.ready()
        path = f"/api/v1/machines/{machine['id']}/toolbox/files"
        data = bytes(range(256)) * 4096 * 24  # 24 MiB

        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, len(data), 65536):
                yield data[start : start + 65536]

        there = tmp_path / "a b+ü" / "file"
        for content in (data, pieces()):
            answer = await cloud.http.post(f"{path}/upload", params={"path": str(there)}, content=content)
            assert answer.status_code == 200, answer.text
            back = await cloud.http.get(f"{path}/download", params={"path": str(there)})
            assert back.content == data

    async def test_a_machine_that_is_down_answers_503(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready()
        await cloud.http.post(f"/api/v1/machines/{machine['id']}/stop")
        await cloud.becomes(machine["id"], "stopped")
        answer = await cloud.http.post(f"/api/v1/machines/{machine['id']}/exec", json={"command": "true"})
        assert_vendor_error(answer, 503)

    async def test_a_daemon_that_dies_with_a_request_in_hand_is_504_and_503_from_then_on(
        self, cloud: LocalCloud, driver: PretendDriver, tmp_path: Path
    ) -> None:
        """Who gets 503 may repeat the request; this command has begun."""
        machine = await cloud.ready()
        mark = tmp_path / "begun"
        body = {"command": f"touch {mark}; sleep 2"}
        asking = asyncio.create_task(cloud.http.post(f"/api/v1/machines/{machine['id']}/exec", json=body))
        while not mark.exists():
            await pause(0.02)
        await driver.stop(machine["id"])  # kills the daemon, unknown to the server
        assert_vendor_error(await asking, 504)
        assert_vendor_error(await cloud.http.post(f"/api/v1/machines/{machine['id']}/exec", json=body), 503)

    async def test_a_caller_that_hangs_up_ends_its_command(self, cloud: LocalCloud, tmp_path: Path) -> None:
        machine = await cloud.ready()
        mark = tmp_path / "beat"
        command = f"while :; do date +%s%N > {mark}; sleep 0.05; echo tick; done"
        async with cloud.http.stream(
            "POST", f"/api/v1/machines/{machine['id']}/toolbox/process/execute/stream", json={"command": command}
        ) as stream:
            await anext(stream.aiter_lines())
        await pause(1)
        before = mark.read_text()
        await pause(0.5)
        assert mark.read_text() == before

    async def test_no_toolbox_of_a_machine_that_is_not_ours(self, cloud: LocalCloud) -> None:
        nobody = "/api/v1/machines/00000000-0000-4000-8000-000000000000"
        assert_vendor_error(await cloud.http.post(f"{nobody}/exec", json={"command": "true"}), 404)


class TestProxy:
    async def test_a_request_reaches_the_port_without_the_token(self, cloud: LocalCloud, service: Recorder) -> None:
        machine = await cloud.ready()
        token = (await cloud.token(machine))["token"]
        async with cloud.through(machine, service.port, token) as http:
            answer = await http.post(
                "/v1/chat%2Fx?q=a%20b", content=b"\x00body", headers={"Authorization": "Bearer the-app's", "X-App": "1"}
            )
        assert (answer.status_code, answer.text) == (201, "heard")
        assert answer.headers["x-service"] == "yes"
        (heard,) = service.heard
        assert (heard.method, heard.target, heard.body) == ("POST", "/v1/chat%2Fx?q=a%20b", b"\x00body")
        assert heard.headers.items() >= {"authorization": "Bearer the-app's", "x-app": "1"}.items()
        assert token not in str(heard)

    async def test_the_query_token_is_good_too(self, cloud: LocalCloud, service: Recorder) -> None:
        machine = await cloud.ready()
        token = (await cloud.token(machine))["token"]
        async with cloud.through(machine, service.port) as http:
            assert (await http.get("/", params={"__proxy_token": token})).status_code == 201

    async def test_events_arrive_one_by_one(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready()
        token = (await cloud.token(machine))["token"]
        loop = asyncio.get_running_loop()
        async with (
            event_source(count=3, every_s=0.3) as port,
            cloud.through(machine, port, token) as http,
            http.stream("GET", "/events") as stream,
        ):
            times = [loop.time() async for line in stream.aiter_lines() if line.startswith("data:")]
        assert len(times) == 3
        assert times[2] - times[0] > 0.4

    async def test_no_token_and_bad_tokens_are_refused(self, cloud: LocalCloud, service: Recorder) -> None:
        first, two = await cloud.ready("one"), await cloud.ready("two")
        mine = await cloud.token(first)
        short = await cloud.token(first, expires_in_seconds=1)
        revoked = await cloud.token(first)
        assert (await cloud.http.delete(f"/api/v1/proxy-tokens/{revoked['id']}")).status_code == 204
        assert_vendor_error(await cloud.http.delete(f"/api/v1/proxy-tokens/{revoked['id']}"), 404)
        await pause(1.1)

        async def status(machine: dict[str, object], token: object) -> int:
            async with cloud.through(machine, service.port, token) as http:
                return (await http.get("/")).status_code

        assert await status(first, "") == 401
        assert await status(first, "pt_made-up") == 401
        assert await status(first, revoked["token"]) == 401
        assert await status(first, short["token"]) == 401
        assert await status(two, mine["token"]) == 403
        assert await status({"slug": "m-00000000"}, mine["token"]) == 404
        assert service.heard == []
        assert await status(first, mine["token"]) == 201

    async def test_a_token_lives_seven_days_at_most(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready()
        request, longest = [
            (await cloud.token(machine, expires_in_seconds=seconds))["expires_at"] for seconds in (10**9, 604_800)
        ]
        assert str(request)[:15] == str(longest)[:15]

    async def test_nothing_listening_is_502_and_a_stopped_machine_503(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready()
        token = (await cloud.token(machine))["token"]
        async with cloud.through(machine, 1, token) as http:
            assert_vendor_error(await http.get("/"), 502)
            await cloud.http.post(f"/api/v1/machines/{machine['id']}/stop")
            await cloud.becomes(machine["id"], "stopped")
            assert_vendor_error(await http.get("/"), 503)

    async def test_the_daemons_toolbox_is_under_the_bare_name(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready()
        token = (await cloud.token(machine))["token"]
        async with cloud.through(machine, None, token) as http:
            answer = await http.post("/toolbox/process/execute", json={"command": "echo here"})
            assert answer.json()["stdout"] == "here\n"
        async with cloud.through(machine, None) as http:
            assert_vendor_error(await http.post("/toolbox/process/execute", json={"command": "true"}), 401)

    async def test_tokens_are_kept_as_hashes(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready()
        token = str((await cloud.token(machine))["token"])
        for file in cloud.folder.iterdir():
            assert token.encode() not in file.read_bytes(), file

    async def test_a_deleted_machines_tokens_are_gone(self, cloud: LocalCloud, service: Recorder) -> None:
        machine = await cloud.ready()
        token = (await cloud.token(machine))["token"]
        await cloud.http.delete(f"/api/v1/machines/{machine['id']}")
        async with cloud.through(machine, service.port, token) as http:
            assert_vendor_error(await http.get("/"), 404)


class TestFaults:
    async def test_a_machine_made_though_the_answer_was_500(self, cloud: LocalCloud) -> None:
        await cloud.fault("create-5xx-but-created")
        body = {"server_type": "starter", "region": "hel1", "name": "ghost"}
        assert_vendor_error(await cloud.http.post("/api/v1/machines", json=body), 500)
        (listed,) = (await cloud.http.get("/api/v1/machines")).json()["machines"]
        assert listed["name"] == "ghost"
        await cloud.order("next")

    @pytest.mark.parametrize("about", ["name", "slug", "id"])
    async def test_a_machine_is_not_found_for_a_while(self, cloud: LocalCloud, about: str) -> None:
        machine, other = await cloud.ready("late"), await cloud.ready("other")
        await cloud.fault("not-found-for-a-while", machine=machine[about], times=2)
        path = f"/api/v1/machines/{machine['id']}"
        assert (await cloud.http.get(f"/api/v1/machines/{other['id']}")).status_code == 200
        assert [(await cloud.http.get(path)).status_code for _ in range(3)] == [404, 404, 200]

    async def test_ready_before_anything_runs(self, cloud: LocalCloud, driver: PretendDriver) -> None:
        driver.create_gate = asyncio.Event()
        await cloud.fault("ready-before-bootstrapped", machine="hasty")
        machine = await cloud.order("hasty")
        assert machine["status"] == "ready"
        answer = await cloud.http.post(f"/api/v1/machines/{machine['id']}/exec", json={"command": "true"})
        assert_vendor_error(answer, 503)
        driver.create_gate.set()
        while answer.status_code == 503:
            answer = await cloud.http.post(f"/api/v1/machines/{machine['id']}/exec", json={"command": "true"})
        assert answer.json()["exit_code"] == 0

    async def test_broken_at_first_and_well_later(self, cloud: LocalCloud) -> None:
        await cloud.fault("error-then-ready")
        machine = await cloud.order()
        assert machine["status"] == "error"
        await cloud.becomes(machine["id"], "ready")

    async def test_the_answer_is_lost_after_the_machine_was_made(self, cloud: LocalCloud) -> None:
        await cloud.fault("lost-answer", machine="lost", method="POST", path="/machines")
        await cloud.order("kept")
        body = {"server_type": "starter", "region": "hel1", "name": "lost"}
        with pytest.raises(httpx.TransportError):
            await cloud.http.post("/api/v1/machines", json=body)
        listed = (await cloud.http.get("/api/v1/machines")).json()["machines"]
        assert [machine["name"] for machine in listed] == ["kept", "lost"]

    async def test_the_answer_to_a_command_is_lost_after_it_ran(self, cloud: LocalCloud, tmp_path: Path) -> None:
        machine = await cloud.ready()
        await cloud.fault("lost-answer", machine="edge")
        with pytest.raises(httpx.TransportError):
            await cloud.http.post(f"/api/v1/machines/{machine['id']}/exec", json={"command": f"touch {tmp_path}/ran"})
        assert (tmp_path / "ran").exists()

    @pytest.mark.parametrize(("kind", "status"), [("payment-required", 402), ("unprocessable", 422)])
    async def test_an_order_is_refused_once(self, cloud: LocalCloud, kind: str, status: int) -> None:
        await cloud.fault(kind, machine="poor")
        body = {"server_type": "starter", "region": "hel1", "name": "poor"}
        refused = await cloud.http.post("/api/v1/machines", json=body)
        assert refused.status_code == status
        if status == 402:
            assert set(refused.json()) == {"requires_checkout", "checkout_url", "message"}
        await cloud.order("poor")

    async def test_a_good_proxy_token_is_refused_once(self, cloud: LocalCloud, service: Recorder) -> None:
        machine = await cloud.ready()
        token = (await cloud.token(machine))["token"]
        await cloud.fault("proxy-unauthorised")
        async with cloud.through(machine, service.port, token) as http:
            assert [(await http.get("/")).status_code for _ in range(2)] == [401, 201]

    async def test_a_call_fails_with_nothing_done(self, cloud: LocalCloud) -> None:
        await cloud.fault("server-error", method="post", path="/machines", status=503, times=2)
        body = {"server_type": "starter", "region": "hel1", "name": "x"}
        for _ in range(2):
            assert_vendor_error(await cloud.http.post("/api/v1/machines", json=body), 503)
        assert (await cloud.http.get("/api/v1/machines")).json() == {"machines": []}
        await cloud.order()

    async def test_a_silent_command_is_cut_and_goes_on(self, cloud: LocalCloud, tmp_path: Path) -> None:
        machine = await cloud.ready()
        await cloud.fault("silence-cut", machine="edge", seconds=1, times=3)
        command = f"sleep 2; touch {tmp_path}/ran"
        for path in ("exec", "toolbox/process/execute"):
            answer = await cloud.http.post(f"/api/v1/machines/{machine['id']}/{path}", json={"command": command})
            assert (answer.status_code, answer.headers["content-type"][:9]) == (524, "text/html")

        async def ran() -> bool | Pending[bool]:
            return (tmp_path / "ran").exists() or Pending("not yet")

        assert await until(ran, what="the command", timeout_s=20, every_s=0.05)
        (left,) = (await cloud.http.get("/local/faults")).json()["faults"]
        assert (left["times"], left["seconds"]) == (1, 1)

    async def test_silence_through_the_proxy_is_cut_and_what_talks_is_not(self, cloud: LocalCloud) -> None:
        machine, other = await cloud.ready(), await cloud.ready("other")
        await cloud.fault("silence-cut", machine=machine["slug"], seconds=1, times=9)
        execute = "toolbox/process/execute"
        async with cloud.through(machine, None, (await cloud.token(machine))["token"]) as http:
            assert (await http.post(f"/{execute}", json={"command": "sleep 3"})).status_code == 524
            assert (await http.post(f"/{execute}", json={"command": "true"})).status_code == 200
        unharmed = await cloud.http.post(f"/api/v1/machines/{other['id']}/{execute}", json={"command": "sleep 1.5"})
        assert unharmed.status_code == 200
        talking, then_silent = "for n in 1 2 3 4; do echo $n; sleep 0.5; done", "; sleep 5"
        stream = f"/api/v1/machines/{machine['id']}/{execute}/stream"
        async with cloud.http.stream("POST", stream, json={"command": talking}) as lines:
            assert "event: exit" in [line async for line in lines.aiter_lines()]
        with pytest.raises(httpx.RemoteProtocolError):
            async with cloud.http.stream("POST", stream, json={"command": talking + then_silent}) as lines:
                [line async for line in lines.aiter_lines()]

    async def test_faults_are_listed_and_cleared(self, cloud: LocalCloud) -> None:
        await cloud.fault("lost-answer", times=3)
        (fault,) = (await cloud.http.get("/local/faults")).json()["faults"]
        assert (fault["kind"], fault["times"]) == ("lost-answer", 3)
        assert (await cloud.http.delete("/local/faults")).json() == {"cleared": 1}
        await cloud.order()

    @pytest.mark.parametrize("body", [{"kind": "earthquake"}, {"kind": "lost-answer", "times": 0}, {"times": 1},
                                      {"kind": "server-error", "status": 200},
                                   {"kind": "silence-cut", "seconds": 0}])  # fmt: skip
    async def test_an_impossible_fault_is_refused(self, cloud: LocalCloud, body: dict[str, object]) -> None:
        assert_vendor_error(await cloud.http.post("/local/faults", json=body), 400)


class TestAccount:
    async def test_usage_counts_what_is_rented(self, cloud: LocalCloud) -> None:
        await cloud.order(server_type="starter")
        await cloud.order(server_type="basic")
        usage = (await cloud.http.get("/api/v1/account/usage")).json()["current_period"]
        assert (usage["total_machines"], usage["estimated_cost"]) == (2, 27.5)
        assert (await cloud.http.get("/api/v1/account")).json()["machines_count"] == 2
