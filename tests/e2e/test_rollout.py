"""Releases brought to a simulated fleet by the installed command: they halt, heal, go on and go back.

In their order: each begins with what the one before it left the fleet with.
"""

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.errors import INTERRUPTED
from tests.support.real.commands.command import Command, local_world
from tests.support.releases.simulated import built
from tests.support.vendor.outside_changes import vendor_of

USERS = 8
QUICK = ("--soak", "1s", "--settle", "1s", "--vitals", "none", "--max-unavailable", "50%")


@pytest.fixture(scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """Agents on simulated machines, and a good release that all of them run."""
    home = tmp_path_factory.mktemp("rollout")
    async with local_world(home, driver="sim") as command:
        wishes = home / "users.csv"
        wishes.write_text("user,plan,region\n" + "".join(f"user-{number},light,\n" for number in range(USERS)))
        await command.ok("provision", "--from", str(wishes))
        await command.ok("rollout", "start", await built(command, "good"), "--all", *QUICK)
        yield command


async def mood_of(command: Command, user: str, mood: str) -> None:
    """Have a simulated gateway be as no command of ours makes it."""
    machine = (await command.ok("instance", "show", user, "--json")).json["instance"]["machine_id"]
    async with vendor_of(command.home / "local" / "world") as vendor:
        path = {"path": "/run/simulation/gateway", "mode": "644"}
        (await vendor.post(f"machines/{machine}/toolbox/files/upload", params=path, content=mood)).raise_for_status()


async def status(command: Command) -> dict[str, Any]:
    rollout_status: dict[str, Any] = (await command.ok("rollout", "status", "--json")).json
    return rollout_status


async def reached(command: Command, release: str) -> bool | Pending[bool]:
    """Whether the rollout under way is of that release and somebody runs it."""
    ran = await command.run("rollout", "status", "--json")
    report = ran.json if ran.exit_code == 0 else {}
    has_it = report.get("progress", {}).get("reached", 0) > 0 and report["rollout"]["release"] == release
    return has_it or Pending("not yet")


async def test_a_good_release_reaches_everybody_and_every_decision_is_explained(fleet: Command) -> None:
    rollout = await status(fleet)
    assert (rollout["rollout"]["state"], rollout["progress"]["reached"]) == ("done", USERS)
    assert [stage["targets"] for stage in rollout["progress"]["stages"]] == [1, 1, 6]
    assert all(target["on_release"] for target in rollout["targets"])
    events = (await fleet.ok("rollout", "explain", "--json")).json["events"]
    assert all(event["why"] for event in events if event["kind"] in {"start", "deploy_targets", "state"})
    assert {"start", "deploy_targets", "deployed", "state"} <= {event["kind"] for event in events}
    assert (await fleet.ok("fleet", "outdated")).stdout == "no instance is outdated\n"


async def test_a_release_that_breaks_everybody_halts_at_its_first_canary_and_that_one_heals(fleet: Command) -> None:
    broken = await built(fleet, "broken", "turn:1.0")
    ran = await fleet.run("rollout", "start", broken, "--all", *QUICK, "--json")
    assert ran.exit_code == 8, ran
    assert ran.json["rollout"]["state"] == "halted"
    assert (ran.json["progress"]["touched"], ran.json["progress"]["failed"]) == (1, 1)
    rollout = await status(fleet)
    [hurt] = [target for target in rollout["targets"] if target["touched_at"]]
    assert not hurt["on_release"]
    assert (await fleet.run("rollout", "status", "--exit-code")).exit_code == 8
    again = await fleet.run("rollout", "start", hurt["release_before"], "--where", f"user={hurt['user']}")
    assert again.exit_code == 3, again
    assert rollout["rollout"]["id"] in again.stderr
    await fleet.ok("rollout", "abort", "--reason", "broken")
    rollback = await fleet.ok("rollback", hurt["user"], "--json", "--to", hurt["release_before"])
    assert not rollback.json["rollback"]["changed"]


@pytest.mark.turns(10)
async def test_the_way_back_is_tried_on_a_machine_of_the_pool_before_the_second_stage(fleet: Command) -> None:
    pooled = fleet.with_variables(HERMESOPS_POOL_SIZE="light=1")
    [cell] = (await fleet.ok("cell", "list", "--json")).json["cells"]
    await pooled.ok("job", "run", "pools", cell["cell"])
    [row] = (await pooled.ok("pool", "list", "--json")).json["machines"]
    next_one = await built(fleet, "drilled")
    await pooled.ok("rollout", "start", next_one, "--all", *QUICK, "--drill", "required")
    events = (await fleet.ok("rollout", "explain", "--json")).json["events"]
    [drilled] = [event for event in events if event["kind"] == "drill"]
    assert drilled["decision"]["result"] == "pass", drilled
    assert (await status(fleet))["rollout"]["state"] == "done"
    await fleet.ok("job", "run", "pools", cell["cell"])
    assert row["machine_name"] not in {machine["name"] for machine in await fleet.machines()}


@pytest.mark.turns(10)
async def test_who_came_later_is_brought_what_the_others_have_without_being_asked(fleet: Command) -> None:
    await fleet.ok("provision", "late", "--plan", "light")
    await fleet.ok("provision", "asleep", "--plan", "light")
    await fleet.ok("instance", "suspend", "asleep", "--reason", "holidays")
    [outdated] = [
        row for row in (await fleet.ok("fleet", "outdated", "--json")).json["outdated"] if row["user"] == "late"
    ]
    due = {row["job"]: row["due"] for row in (await fleet.ok("job", "list", "--json")).json["jobs"]}
    assert due["outdated"] == 1
    await fleet.ok("job", "run", "outdated")
    worker = await fleet.start("worker", "--without-jobs")
    await until(lambda: reached(fleet, outdated["release"]), what="who came later", timeout_s=120, every_s=1)
    worker.send_signal(signal.SIGTERM)
    await asyncio.wait_for(worker.communicate(), 60)
    assert (await fleet.ok("instance", "show", "late", "--json")).json["instance"]["release"] == outdated["release"]
    await fleet.ok("rollout", "promote", "--full", "--reason", "no time")
    assert [row["user"] for row in (await fleet.ok("fleet", "outdated", "--json")).json["outdated"]] == []
    for user in ("late", "asleep"):
        await fleet.ok("instance", "terminate", user, "--yes", "--reason", "test")


@pytest.mark.turns(10)
async def test_who_is_in_the_middle_of_a_run_is_left_for_later(fleet: Command) -> None:
    release = await built(fleet, "deferred")
    await mood_of(fleet, "user-6", "busy")
    words = ("--where", "user=user-6", *QUICK, "--defer", "15s")
    process = await fleet.start("rollout", "start", release, *words)

    async def is_left() -> bool | Pending[bool]:
        ran = await fleet.run("rollout", "status", "--json")
        targets = ran.json["targets"] if ran.exit_code == 0 else []
        left = [(target["state"], target["detail"]) for target in targets]
        return left == [("deferred", "busy: 1 run")] or Pending(str(left))

    await until(is_left, what="user-6 is left for later", timeout_s=60, every_s=0.5)
    await mood_of(fleet, "user-6", "")
    await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0
    rollout = await status(fleet)
    assert (rollout["rollout"]["state"], [target["on_release"] for target in rollout["targets"]]) == ("done", [True])


async def test_an_agent_that_moves_takes_its_release_along(fleet: Command) -> None:
    was = (await fleet.ok("instance", "show", "user-5", "--json")).json
    await fleet.ok("instance", "move", "user-5", "--region", "nbg1", "--reason", "nearer")
    now = (await fleet.ok("instance", "show", "user-5", "--json")).json
    assert now["instance"]["machine_name"] != was["instance"]["machine_name"]
    assert now["instance"]["release"] == was["instance"]["release"]


@pytest.mark.turns(28)
async def test_agents_that_move_while_a_release_is_brought_get_it_all_the_same(fleet: Command) -> None:
    release = await built(fleet, "beside")
    movers = ("user-1", "user-2", "user-6")
    moves = [("instance", "move", user, "--region", "nbg1", "--reason", "beside a rollout") for user in movers]
    starts = ("rollout", "start", release, "--all", *QUICK)
    await asyncio.gather(*(fleet.ok(*words) for words in (starts, *moves)))
    rollout = await status(fleet)
    assert (rollout["rollout"]["state"], rollout["progress"]["reached"]) == ("done", USERS)
    for user in movers:
        assert (await fleet.ok("instance", "show", user, "--json")).json["instance"]["release"] == release


async def test_one_agent_goes_back_with_and_without_the_registry(fleet: Command) -> None:
    # Whichever agent was the canary of a broken release has gone back already: all begin from a good one.
    await fleet.ok("rollout", "start", await built(fleet, "left again"), "--all", *QUICK)
    before = (await fleet.ok("rollback", "user-3", "--json", "--reason", "asked for")).json["rollback"]
    assert before["changed"]
    assert not (await fleet.ok("rollback", "user-3", "--json")).json["rollback"]["changed"]
    direct = (await fleet.ok("rollback", "user-4", "--direct", "--json")).json["rollback"]
    assert (direct["changed"], direct["release"]) == (True, before["release"])
    named = (await fleet.ok("rollback", "--direct", "--machine", direct["machine"], "--json")).json["rollback"]
    assert not named["changed"]
    assert (await fleet.run("rollback", "nobody", "--direct")).exit_code == 2


@pytest.mark.turns(10)
async def test_a_rollout_that_was_interrupted_goes_on_and_is_put_back_whole(fleet: Command) -> None:
    release = await built(fleet, "another")
    # It cannot end by itself before it is interrupted.
    process = await fleet.start("rollout", "start", release, "--all", *QUICK, "--soak", "1h")

    await until(lambda: reached(fleet, release), what="the first that runs it", timeout_s=120, every_s=0.5)
    process.send_signal(signal.SIGINT)
    _, output = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == INTERRUPTED
    assert b"hermesops rollout resume" in output
    rollout = await status(fleet)
    assert rollout["rollout"]["state"] == "running"
    touched = {target["user"]: target["touched_at"] for target in rollout["targets"] if target["on_release"]}
    await fleet.ok("rollout", "promote", "--full", "--reason", "no time")
    rollout = await status(fleet)
    assert (rollout["rollout"]["state"], rollout["progress"]["reached"]) == ("done", USERS)
    assert touched.items() <= {target["user"]: target["touched_at"] for target in rollout["targets"]}.items()
    back = await fleet.ok("rollback", "--rollout", rollout["rollout"]["id"], "--yes", "--json")
    assert back.json["rollout"]["state"] == "rolled_back"
    rollout = await status(fleet)
    assert {target["state"] for target in rollout["targets"]} == {"rolled_back"}
    changes = (await fleet.ok("rollout", "history", "--json")).json["changes"]
    assert [change["to"] for change in changes][-2:] == ["rolling_back", "rolled_back"]


async def written(command: Command, user: str, files: dict[str, str]) -> None:
    """Write files into a simulated agent's home."""
    machine = (await command.ok("instance", "show", user, "--json")).json["instance"]["machine_id"]
    async with vendor_of(command.home / "local" / "world") as vendor:
        for name, content in files.items():
            path = {"path": f"/var/lib/hermes/{name}", "mode": "600"}
            response = await vendor.post(f"machines/{machine}/toolbox/files/upload", params=path, content=content)
            response.raise_for_status()


@pytest.mark.turns(10)
async def test_a_rollback_names_for_each_agent_the_settings_that_it_loses_before_and_after(fleet: Command) -> None:
    await fleet.ok("rollout", "start", await built(fleet, "newer schema"), "--all", *QUICK)
    rollout_id = (await status(fleet))["rollout"]["id"]
    configs = ".hermes-node/configs"
    migrated = "_config_version: 50\nproviders:\n  mine: {}\n"
    await written(
        fleet,
        "user-2",
        {
            f"{configs}/33.yaml": "_config_version: 33\n",
            f"{configs}/50.migrated": migrated,
            "config.yaml": migrated.replace("{}", "{url: x}") + "agent:\n  max_turns: 7\n",
        },
    )
    words = ("rollback", "--rollout", rollout_id)
    previews = {row["user"]: row for row in (await fleet.ok(*words, "--dry-run", "--json")).json["agents"]}
    lost = {user: row["settings_lost"] for user, row in previews.items()}
    assert lost == {f"user-{number}": [] for number in range(USERS)} | {"user-2": ["providers.mine"]}
    assert previews["user-2"]["settings_migrated"] == 1
    agents = (await fleet.ok("rollback", "user-2", "--dry-run", "--json")).json["agents"]
    assert [row["settings_lost"] for row in agents] == [["providers.mine"]]
    refused = await fleet.run(*words)
    assert refused.exit_code == 3, refused
    assert "user-2: settings not in force afterwards: providers.mine\n" in refused.stderr
    assert (await status(fleet))["rollout"]["state"] == "done"
    back = await fleet.ok(*words, "--yes", "--json")
    assert "1 agent with settings that are not in force any more" in back.json["rollout"]["reason"]
    targets = {target["user"]: target["settings_lost"] for target in (await status(fleet))["targets"]}
    assert targets == lost


@pytest.mark.turns(15)
async def test_a_rollout_to_an_older_release_names_the_settings_that_each_agent_loses_before_it_begins(
    fleet: Command,
) -> None:
    [older] = {target["release_before"] for target in (await status(fleet))["targets"]}
    await fleet.ok("release", "build", "--agent", "0.22.0", "--note", "newer line")
    releases = (await fleet.ok("release", "list", "--json")).json["releases"]
    newer = next(release["id"] for release in releases if release["note"] == "newer line")
    upwards = (await fleet.ok("rollout", "start", newer, "--all", "--dry-run", "--json")).json["preview"]
    assert upwards["losses"] == [], "its configuration is migrated, and none is taken back"
    await fleet.ok("rollout", "start", newer, "--all", *QUICK)
    configs = ".hermes-node/configs"
    migrated = "_config_version: 50\nproviders:\n  mine: {}\n"
    files = {f"{configs}/33.yaml": "_config_version: 33\n", f"{configs}/50.migrated": migrated}
    await written(fleet, "user-3", {**files, "config.yaml": migrated.replace("{}", "{url: x}")})
    rollouts = (await fleet.ok("rollout", "list", "--all", "--json")).json["rollouts"]
    ahead = (await fleet.ok("rollout", "start", older, "--all", "--dry-run", "--json")).json["preview"]
    lost = {row["user"]: row["settings_lost"] for row in ahead["losses"]}
    assert (len(lost), {user for user in lost if lost[user]}) == (ahead["targets"], {"user-3"})
    assert lost["user-3"] == ["providers.mine"]
    everybody = (await fleet.ok("rollback", "--to", older, "--dry-run", "--json")).json["agents"]
    assert everybody == ahead["losses"]
    assert (await fleet.ok("rollout", "list", "--all", "--json")).json["rollouts"] == rollouts
    back = await fleet.ok("rollout", "start", older, "--all", *QUICK)
    assert "user-3: settings not in force afterwards: providers.mine\n" in back.stderr
    assert (await status(fleet))["rollout"]["state"] == "done"


async def test_what_makes_no_sense_is_refused_before_anything_moves(fleet: Command) -> None:
    good = (await fleet.ok("release", "list", "--json")).json["releases"][-1]["id"]
    before = (await fleet.ok("rollout", "list", "--all", "--json")).json["rollouts"]
    cases: tuple[tuple[tuple[str, ...], str], ...] = (
        (("rollout", "start", "9.9", "--all"), "no release '9.9'"),
        (("rollout", "start", good), "--all"),
        (("rollout", "start", good, "--where", "plan=heavy"), "no running instance matches"),
        (("rollout", "start", good, "--all", "--vitals", "happiness"), "happiness"),
        (("rollout", "start", good, "--all", "--stages", "50%,20%,100%"), "rise"),
        (("rollout", "start", good, "--all", "--window", "sometimes"), "maintenance window"),
        (("rollout", "status", "nothing"), "no rollout"),
        (("rollback",), "missing USER"),
        (("rollback", "--to", "9.9", "--dry-run"), "no release '9.9'"),
        (("rollback", "user-1", "--direct", "--dry-run"), "--dry-run goes without"),
        (("instance", "policy", "user-1", "--quiet-hours", "25-3"), "time of day"),
        (("rollout", "freeze"), "reason"),
    )
    for words, says in cases:
        ran = await fleet.run(*words)
        assert ran.exit_code == 2, ran
        assert says in ran.stderr, ran
    assert (await fleet.ok("rollout", "list", "--all", "--json")).json["rollouts"] == before


async def test_a_revoked_release_is_refused(fleet: Command) -> None:
    release = await built(fleet, "revoked")
    await fleet.ok("release", "revoke", release, "--reason", "loses messages", "--yes")
    ran = await fleet.run("rollout", "start", release, "--all")
    assert ran.exit_code == 3, ran
    assert "loses messages" in ran.stderr


async def test_a_release_that_is_not_whole_in_the_store_is_refused_before_anybody_is_touched(fleet: Command) -> None:
    release = await built(fleet, "truncated")
    lock = (fleet.home / f"local/releases/locks/{release}.json").read_text()
    blob = next(path for path in fleet.home.glob("local/releases/blobs/*") if path.name in lock)
    count = len((await fleet.ok("rollout", "list", "--all", "--json")).json["rollouts"])
    whole = blob.read_bytes()
    blob.write_bytes(whole[:-1])
    ran = await fleet.run("rollout", "start", release, "--all", *QUICK)
    blob.write_bytes(whole)
    assert ran.exit_code == 3, ran
    assert "is damaged" in ran.stderr
    assert f"hermesops release verify {release}" in ran.stderr
    assert len((await fleet.ok("rollout", "list", "--all", "--json")).json["rollouts"]) == count


async def test_a_preview_touches_nothing_and_says_who_is_first(fleet: Command) -> None:
    release = await built(fleet, "previewed")
    shown = (await fleet.ok("rollout", "preview", release, "--all", "--json")).json["preview"]
    assert (shown["targets"], shown["worst_hurt"], len(shown["canaries"])) == (USERS, 1, 1)
    await fleet.ok("instance", "policy", "user-7", "--opt-in")
    shown = (await fleet.ok("rollout", "preview", release, "--all", "--json")).json["preview"]
    assert shown["canaries"] == ["user-7"]
