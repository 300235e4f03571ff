"""Bringing a machine to another release: what it looks like, and that it comes back wherever hermes-node dies."""

import io
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermesops.programs.node import __main__ as node
from hermesops.programs.node.instance import drain
from hermesops.programs.node.instance.agent.api import Answer
from hermesops.programs.node.instance.personalise import configure, personalise, stored_payload
from hermesops.programs.node.instance.status import status
from hermesops.programs.node.instance.warm import placeholder
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.ports import TrialResult
from hermesops.programs.node.release import activate, inventory, rollback
from hermesops.programs.node.release import activation as records
from hermesops.programs.node.release.activate import Options, confirm, preview
from hermesops.programs.node.release.fetch import fetch
from hermesops.programs.node.state import user_config
from hermesops.programs.node.system import files
from hermesops.programs.node.system.files import PRIVATE
from hermesops.wire.documents.revocations import Revocations
from hermesops.wire.errors import NotReadyError, OutrankedError, RefusedError
from hermesops.wire.layout import UNIT
from hermesops.wire.model_endpoint import ModelEndpoint
from hermesops.wire.protocol import Check, Connector, FencingToken
from hermesops.wire.settings import Settings
from tests.support.crash.death import Death, KilledError
from tests.support.releases.machine_home import OLD, OLD_LOCK, ReleaseHome, lock_of, make
from tests.support.suite.shard import shard

PARTS = 4
"""Of the effects that hermes-node may die at, so many times fewer are tried with each commit."""

LOCK = lock_of("0.20.0")
NEW = LOCK.id


@pytest.fixture
def home(tmp_path: Path) -> ReleaseHome:
    return lived_in(tmp_path)


def lived_in(folder: Path) -> ReleaseHome:
    """A machine with a user, to which a release was brought."""
    home = make(folder)
    personalise(home.node, home.home.personalised(), wait_s=60)
    fetched(home)
    return home


def fetched(home: ReleaseHome) -> None:
    home.upload(LOCK)
    answer, code = fetch(home.node, home.offer(LOCK), lease=None)
    assert (code, answer["missing"]) == (0, [])


def outcome(home: ReleaseHome) -> object:
    """What the machine remembers of the last change."""
    return (records.history(home.node).last or {}).get("outcome")


def activate_release(machine: Machine, *, confirm_s: float = 60.0) -> tuple[dict[str, object], int]:
    return activate.activate(machine, NEW, Options(confirm_s=confirm_s), lease=None, progress=lambda _: None)


def test_a_release_is_tried_then_runs_and_waits_to_be_confirmed(home: ReleaseHome) -> None:
    reports: list[str] = []
    answer, code = activate.activate(home.node, NEW, Options(), lease=None, progress=reports.append)
    assert (code, answer["release"], answer["from"], answer["state"]) == (0, NEW, OLD, "unconfirmed")
    assert reports == ["installing", "trying", "draining", "switching", "starting"]
    assert [check["name"] for check in answer["checks"]] == ["health", "state", "tools", "turn"]
    assert home.system.watched
    assert home.seen() == {
        "current": NEW,
        "config": {"of": "0.20.0"},
        "unit": f"[Service]\n# of {NEW}\n",
        "runs": NEW,
        "closed": False,
        "activation": True,
        "held": False,
        "drains": False,
        "said": "old",
    }
    assert status(home.node)["releases"]["activation"]["phase"] == "unconfirmed"


def test_asked_again_it_says_how_much_time_is_left_and_does_nothing(home: ReleaseHome) -> None:
    first, _ = activate_release(home.node)
    ran = list(home.system.ran)
    home.system.sleep(20)
    again, code = activate_release(home.node)
    assert code == 0
    assert (again["state"], again["checks"]) == ("unconfirmed", first["checks"])
    assert again["confirm_by_s"] == pytest.approx(40, abs=2)
    assert home.system.ran == ran


def test_confirmed_it_stays_and_nothing_is_left_over(home: ReleaseHome) -> None:
    activate_release(home.node)
    assert confirm(home.node, NEW, lease=None)["state"] == "active"
    home.system.sleep(3600)
    assert rollback.settle(home.node) == {"state": "settled"}
    assert home.seen()["current"] == NEW
    assert not list(home.layout.managed.glob(".back.*"))
    assert not home.layout.back.is_symlink()
    assert confirm(home.node, NEW, lease=None)["state"] == "active"
    assert activate_release(home.node)[0]["state"] == "active"


def test_nobody_confirms_it_and_the_machine_goes_back_by_itself(home: ReleaseHome) -> None:
    before = home.seen()
    activate_release(home.node)
    report = rollback.settle(home.node)
    assert (report["state"], report["release"], report["healthy"]) == ("went back", OLD, True)
    assert "nobody confirmed" in report["why"]
    assert outcome(home) == "confirm_timed_out", "that says nothing of the release"
    assert home.seen() == before
    assert home.system.ran[-1] == OLD
    with pytest.raises(RefusedError, match="nobody confirmed"):
        confirm(home.node, NEW, lease=None)


def test_too_late_nobody_confirms_it_any_more(home: ReleaseHome) -> None:
    activate_release(home.node)
    home.system.sleep(61)
    with pytest.raises(RefusedError, match="is not unconfirmed here"):
        confirm(home.node, NEW, lease=None)


def test_a_confirmation_under_way_when_the_time_is_over_counts(
    home: ReleaseHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch finds the release due, and then waits for the lock that the confirmation holds."""
    activate_release(home.node)
    home.system.sleep(59)
    waits, real, lock = threading.Event(), home.system.ask, files.locked
    settled: list[Future[dict[str, Any]]] = []

    @contextmanager
    def waiting(path: Path) -> Iterator[None]:
        waits.set()
        with lock(path):
            yield

    with ThreadPoolExecutor(1) as pool:

        def slow(port: int, path: str, *, key: str = "") -> Answer:
            monkeypatch.setattr(home.system, "ask", real)
            monkeypatch.setattr(files, "locked", waiting)
            home.system.sleep(2)
            settled.append(pool.submit(rollback.settle, home.node))
            assert waits.wait(10)
            return real(port, path, key=key)

        monkeypatch.setattr(home.system, "ask", slow)
        confirm(home.node, NEW, lease=None)
    assert [each.result() for each in settled] == [{"state": "settled"}]
    assert home.seen()["current"] == NEW


def test_one_whose_gateway_does_not_answer_is_not_confirmed(home: ReleaseHome) -> None:
    activate_release(home.node)
    home.system.sick.add(NEW)
    with pytest.raises(NotReadyError, match="its gateway does not answer"):
        confirm(home.node, NEW, lease=None)
    assert home.seen()["activation"]


def test_systemd_reads_the_older_unit_before_its_gateway_starts(
    home: ReleaseHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    activate_release(home.node)
    home.system.sleep(61)
    read, real = [], home.system.systemctl

    def systemctl(*words: str, check: bool = True) -> str:
        if words == ("daemon-reload",):
            read.append(home.layout.unit(UNIT).read_text())
        if words[0] == "start":
            read.append("started")
        return real(*words, check=check)

    monkeypatch.setattr(home.system, "systemctl", systemctl)
    rollback.settle(home.node)
    assert read == [f"[Service]\n# of {OLD}\n", "started"]


def test_a_reboot_in_the_window_ends_it_at_once(home: ReleaseHome) -> None:
    before = home.seen()
    activate_release(home.node, confirm_s=1e9)
    home.boot()
    assert "rebooted" in rollback.settle(home.node)["why"]
    assert outcome(home) == "confirm_timed_out"
    assert home.seen() == before


def test_one_whose_gateway_does_not_come_up_is_left_and_says_why(home: ReleaseHome) -> None:
    before = home.seen()
    home.system.sick.add(NEW)
    answer, code = activate_release(home.node)
    assert code == 8
    assert (answer["stage"], answer["release"]) == ("checks", OLD)
    assert outcome(home) == "rolled_back"
    assert "health" in str(answer["error"])
    assert home.seen() == before


def test_one_that_fails_its_trial_touches_nothing(home: ReleaseHome) -> None:
    before, ran = home.seen(), list(home.system.ran)
    home.slots.tried = TrialResult((Check("health", ok=False, detail="exit 1"),))
    answer, code = activate_release(home.node)
    assert (code, answer["stage"]) == (8, "trial")
    assert home.seen() == before
    assert home.system.ran == ran


def test_a_trial_has_the_users_model_and_neither_messengers_nor_the_users_key(home: ReleaseHome) -> None:
    activate_release(home.node)
    trial = home.slots.trials[0]
    assert trial.takes_turns
    assert trial.old is not None
    assert trial.old.unit == f"[Service]\n# of {OLD}\n"
    assert trial.new.unit == f"[Service]\n# of {NEW}\n"
    environment = trial.new.environment.decode()
    assert trial.key in environment
    assert "k" * 64 not in environment
    assert json.loads(trial.new.config)["plugins"]["disabled"] == ["telegram-platform"]


def test_a_trial_opens_no_socket_to_the_connector_and_the_release_that_runs_then_does(home: ReleaseHome) -> None:
    stored = stored_payload(home.node)
    connector = Connector("https://10.0.0.1:8449", "5" * 64, {"telegram": "our_bot"})
    home.node.files.write_if_changed(home.node.layout.payload, replace(stored, connector=connector).to_json(), PRIVATE)
    activate_release(home.node)
    [trial] = home.slots.trials
    assert trial.old is not None
    assert b"GATEWAY_RELAY" not in trial.new.environment + trial.old.environment
    assert b"GATEWAY_RELAY_SECRET" in (home.node.layout.managed / ".env").read_bytes()


def test_an_agent_that_is_still_at_work_is_left_in_peace(home: ReleaseHome) -> None:
    before = home.seen()
    home.system.work = [1]
    answer, code = activate_release(home.node)
    assert code == 7
    assert answer["busy"] == {"runs": 1, "connections": 0, "cron_due": 0}
    assert home.seen() == before


def test_a_change_that_is_cancelled_while_the_agent_is_at_work_is_given_up_at_once(home: ReleaseHome) -> None:
    before, began = home.seen(), home.system.monotonic()
    home.system.work = [1]
    real = home.system.sleep

    def slept(seconds: float) -> None:
        if home.system.monotonic() > began + 5:
            out = io.StringIO()
            words = ["--root", str(home.layout.root), "release", "cancel"]
            assert node.run(words, lambda _: home.node, out, out) == 0
        real(seconds)

    home.system.sleep = slept  # type: ignore[method-assign]
    answer, code = activate_release(home.node)
    assert (code, answer["error"]) == (7, "the change was cancelled")
    assert home.system.monotonic() - began < 8
    assert home.seen() == before
    home.system.sleep, home.system.work = real, [0]  # type: ignore[method-assign]
    assert activate_release(home.node)[0]["state"] == "unconfirmed", "who was cancelled once may be brought again"


def test_one_that_switches_already_is_not_cancelled(home: ReleaseHome) -> None:
    records.cancel(home.node)
    assert activate_release(home.node)[0]["state"] == "unconfirmed"
    records.cancel(home.node)
    assert confirm(home.node, NEW, lease=None)["state"] == "active"


def test_a_gate_that_cannot_be_closed_leaves_everything_as_it_was(
    home: ReleaseHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, ran = home.seen(), list(home.system.ran)

    def broken(_port: int) -> None:
        raise NotReadyError("nft: no such table")

    monkeypatch.setattr(home.gate, "close", broken)
    with pytest.raises(NotReadyError, match="no such table"):
        activate_release(home.node)
    assert (home.seen(), home.system.ran) == (before, ran)


def test_a_state_that_the_older_cannot_read_is_put_back_as_it_was_at_the_stop(home: ReleaseHome) -> None:
    home.slots.tried = TrialResult((Check("health", ok=True),), "copy", "the old one fails")
    answer, _ = activate_release(home.node)
    assert answer["rollback_method"] == "copy"
    home.state.text.write_text("old, and strange")
    report = rollback.settle(home.node)
    assert (report["migrated"], report["listed"]) == (1, 0)
    assert home.state.text.read_text() == "old"
    kept = home.state.text.parent.glob("newer-*")
    assert [path.read_text() for path in kept] == ["old, and strange"]


@pytest.mark.parametrize("config", ["_config_version: 20\nmodel: mine\n", "model: mine\n"])
def test_a_users_configuration_in_an_older_form_is_moved_tried_first_and_kept(home: ReleaseHome, config: str) -> None:
    (home.home.home / "config.yaml").write_text(config)
    reports: list[str] = []
    activate.activate(home.node, NEW, Options(), lease=None, progress=reports.append)
    assert home.slots.trials[0].migrates
    assert reports[3:] == ["switching", "migrating", "starting"]
    assert (home.home.home / "config.yaml").read_text() == "_config_version: 33\n"
    assert [path.name.endswith(NEW) for path in home.state.text.parent.glob("kept-*")] == [True]
    kept = home.home.home / ".hermes-node/configs"
    assert [path.read_text() for path in kept.glob("*.yaml")] == [config]
    assert (kept / "33.migrated").read_text() == "_config_version: 33\n"


@pytest.mark.parametrize("config", ["_config_version: 33\nmodel: mine\n", "_config_version: '40'\n", None])
def test_one_in_this_form_or_a_newer_one_that_alone_is_there_is_left_alone(
    home: ReleaseHome, config: str | None
) -> None:
    path = home.home.home / "config.yaml"
    path.unlink()
    if config is not None:
        path.write_text(config)
    reports: list[str] = []
    answer, _ = activate.activate(home.node, NEW, Options(), lease=None, progress=reports.append)
    assert not home.slots.trials[0].migrates
    assert "migrating" not in reports
    assert answer["rollback_method"] == ("copy" if config and "40" in config else "in_place")
    assert (path.read_text() if path.exists() else None) == config


def as_a_newer_agent_left_it(home: ReleaseHome) -> Path:
    """A configuration that a newer agent has migrated, with the former one beside it."""
    path = home.home.home / "config.yaml"
    path.write_text(FORMER)
    user_config.keep(home.home.home)
    path.write_text(NEWER)
    return path


FORMER, NEWER = "_config_version: 33\n# mine\n", "_config_version: 50\nmodel: mine\n"


def test_a_release_that_writes_an_older_form_gets_the_users_file_of_before(home: ReleaseHome) -> None:
    path = as_a_newer_agent_left_it(home)
    answer, code = activate_release(home.node)
    assert (code, answer["rollback_method"], path.read_text()) == (0, "copy", FORMER)
    assert home.slots.trials[0].config_schema == 33
    kept = home.home.home / ".hermes-node/configs"
    assert {file.name: file.read_text() for file in kept.iterdir()} == {"50.yaml": NEWER}


def test_so_does_a_slot_that_is_gone_back_to_by_name(home: ReleaseHome) -> None:
    activate_release(home.node)
    confirm(home.node, NEW, lease=None)
    path = as_a_newer_agent_left_it(home)
    assert rollback.rollback(home.node, to=OLD, lease=None)[0]["release"] == OLD
    assert path.read_text() == FORMER


def test_a_preview_names_what_a_rollback_loses_and_the_rollback_the_same_when_it_is_repeated(
    home: ReleaseHome,
) -> None:
    activate_release(home.node)
    confirm(home.node, NEW, lease=None)
    assert not rollback.preview(home.node)["settings_lost"]
    as_a_newer_agent_left_it(home)
    (home.home.home / ".hermes-node/configs/50.migrated").write_text("_config_version: 50\nmodel: other\n")
    system = home.system
    preview = rollback.preview(home.node)
    assert (preview["release"], preview["from"], list(preview["settings_lost"])) == (OLD, NEW, ["model"])
    assert (system.running, system.runs) == (True, NEW)
    done, _ = rollback.rollback(home.node, to=OLD, lease=None)
    again, _ = rollback.rollback(home.node, to=OLD, lease=None)
    assert list(done["settings_lost"]) == list(again["settings_lost"]) == ["model"]
    assert not rollback.preview(home.node, to=OLD)["settings_lost"]
    with pytest.raises(RefusedError, match="no slot of release none"):
        rollback.preview(home.node, to="none")


def test_a_preview_names_what_an_older_release_loses_before_the_machine_has_it(home: ReleaseHome) -> None:
    path = as_a_newer_agent_left_it(home)
    (home.home.home / ".hermes-node/configs/50.migrated").write_text("_config_version: 50\nmodel: other\n")
    assert not preview(home.node, 50)["settings_lost"]
    ahead = preview(home.node, 33)
    assert (ahead["from"], list(ahead["settings_lost"]), path.read_text()) == (OLD, ["model"], NEWER)
    answer, _ = activate_release(home.node)
    assert (answer["settings_lost"], path.read_text()) == (["model"], FORMER)


def test_a_preview_of_an_unconfirmed_release_is_of_the_one_before(home: ReleaseHome) -> None:
    home.slots.tried = TrialResult((Check("health", ok=True),), rollback_method="copy")
    activate_release(home.node)
    home.state.text.write_text("strange")
    preview = rollback.preview(home.node)
    assert (preview["release"], preview["from"], preview["migrated"], preview["listed"]) == (OLD, NEW, 1, 1)


def test_a_way_back_whose_copy_was_pruned_is_tried_first_and_taken(home: ReleaseHome) -> None:
    home.slots.tried = TrialResult((Check("health", ok=True),), "copy")
    activate_release(home.node)
    confirm(home.node, NEW, lease=None)
    for copy in home.state.text.parent.glob("kept-*"):
        copy.unlink()
    trials = len(home.slots.trials)
    home.slots.tried = TrialResult((Check("health", ok=False, detail="no such column"),))
    with pytest.raises(RefusedError, match="does not run on the present state"):
        rollback.rollback(home.node, lease=None)
    home.slots.tried = TrialResult((Check("health", ok=True),))
    answer, code = rollback.rollback(home.node, lease=None)
    assert (code, answer["release"], len(home.slots.trials)) == (0, OLD, trials + 2)


def test_a_link_in_the_place_of_the_configuration_is_not_followed(home: ReleaseHome) -> None:
    outside = home.layout.root / "precious"
    outside.write_text("_config_version: 1\n")
    path = home.home.home / "config.yaml"
    path.unlink()
    path.symlink_to(outside)
    activate_release(home.node)
    assert not home.slots.trials[0].migrates
    assert outside.read_text() == "_config_version: 1\n"


def test_one_that_cannot_move_it_is_left_and_the_older_form_is_put_back(
    home: ReleaseHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home.home.home / "config.yaml").write_text("_config_version: 20\n")
    before = home.seen()
    monkeypatch.setattr(home.slots, "migrate", lambda *_: None)
    answer, code = activate_release(home.node)
    assert (code, answer["stage"], answer["release"]) == (8, "switch", OLD)
    assert "schema 20" in str(answer["error"])
    assert home.seen() == before
    assert list(home.state.text.parent.glob("newer-*"))


def test_what_would_be_lost_by_going_back_later_has_to_be_meant(home: ReleaseHome) -> None:
    home.slots.tried = TrialResult((Check("health", ok=True),), "copy")
    activate_release(home.node)
    confirm(home.node, NEW, lease=None)
    home.state.text.write_text("old, and strange")
    with pytest.raises(RefusedError, match="1 do not fit into the older databases"):
        rollback.rollback(home.node, lease=None)
    assert home.seen()["runs"] == NEW
    answer, code = rollback.rollback(home.node, loses=True, lease=None)
    assert (code, answer["release"], answer["from"]) == (0, OLD, NEW)
    assert home.seen()["said"] == "old"


@pytest.mark.parametrize("to", ["", OLD])
@pytest.mark.parametrize(
    ("taken_back", "why"),
    [
        (Revocations(1, {OLD: "it forgets"}), "was revoked: it forgets"),
        (Revocations(1, {}, floor="0.20.0"), "is below the floor"),
    ],
)
def test_one_that_must_not_run_any_more_is_gone_back_to_only_when_that_is_said(
    home: ReleaseHome, taken_back: Revocations, why: str, to: str
) -> None:
    activate_release(home.node)
    confirm(home.node, NEW, lease=None)
    home.layout.revocations.write_bytes(taken_back.to_json())
    before = home.seen()
    with pytest.raises(RefusedError, match=f"{why}.*--even-revoked"):
        rollback.rollback(home.node, to=to, lease=None)
    assert home.seen() == before
    answer, code = rollback.rollback(home.node, to=to, even_revoked=True, lease=None)
    assert (code, answer["release"]) == (0, OLD)


def test_one_that_was_fetched_and_revoked_since_is_not_gone_back_to(home: ReleaseHome) -> None:
    activate_release(home.node)
    confirm(home.node, NEW, lease=None)
    rollback.rollback(home.node, lease=None)
    home.layout.revocations.write_bytes(Revocations(1, {NEW: "it forgets"}).to_json())
    with pytest.raises(RefusedError, match="was revoked: it forgets"):
        rollback.rollback(home.node, to=NEW, lease=None)


def test_one_that_nobody_confirmed_goes_back_by_itself_whatever_was_revoked(home: ReleaseHome) -> None:
    activate_release(home.node)
    home.layout.revocations.write_bytes(Revocations(1, {OLD: "it forgets"}).to_json())
    answer, code = rollback.rollback(home.node, lease=None)
    assert (code, answer["release"], home.seen()["runs"]) == (0, OLD, OLD)


def test_a_confirmed_one_is_left_by_name_and_asking_twice_does_no_more(home: ReleaseHome) -> None:
    before = home.seen()
    activate_release(home.node)
    confirm(home.node, NEW, lease=None)
    assert rollback.rollback(home.node, to=OLD, lease=None)[0]["release"] == OLD
    assert home.seen() == before
    ran = list(home.system.ran)
    assert rollback.rollback(home.node, to=OLD, lease=None)[0]["gap_s"] == 0
    assert home.system.ran == ran
    with pytest.raises(RefusedError, match="no previous slot is known"):
        rollback.rollback(home.node, lease=None)
    with pytest.raises(RefusedError, match=f"there are {OLD}, {NEW}"):
        rollback.rollback(home.node, to="0.1.0-000000000000", lease=None)


def test_a_confirmed_one_that_hangs_is_left_though_it_never_says_what_it_is_at(home: ReleaseHome) -> None:
    activate_release(home.node)
    confirm(home.node, NEW, lease=None)
    home.system.sick.add(NEW)
    with pytest.raises(NotReadyError, match="does not report its work"):
        drain.drain(home.node, deadline_s=1, lease=None)
    answer, code = rollback.rollback(home.node, to=OLD, lease=None)
    assert (code, answer["release"], home.seen()["runs"]) == (0, OLD, OLD)


def test_a_slot_that_was_lost_is_installed_anew_and_rolled_back_to(home: ReleaseHome) -> None:
    before = home.seen()
    activate_release(home.node)
    confirm(home.node, NEW, lease=None)
    home.slots.remove(OLD)
    with pytest.raises(RefusedError, match=f"no slot of release {OLD}"):
        rollback.rollback(home.node, to=OLD, lease=None)
    with pytest.raises(RefusedError, match="was not fetched"):
        activate.install(home.node, OLD, lease=None)
    home.upload(OLD_LOCK)
    fetch(home.node, home.offer(OLD_LOCK), lease=None)
    assert activate.install(home.node, OLD, lease=None) == {"release": OLD, "current": NEW}
    assert home.seen()["runs"] == NEW
    rollback.rollback(home.node, to=OLD, lease=None)
    assert home.seen() == before


def test_the_first_slot_of_a_machine_is_switched_to_and_nothing_is_started(home: ReleaseHome) -> None:
    home.system.systemctl("stop", UNIT)
    ran = list(home.system.ran)
    home.layout.current.unlink()
    home.slots.remove(OLD)
    home.layout.unit(UNIT).unlink()
    with pytest.raises(NotReadyError, match="has no"):
        activate_release(home.node)  # there is nothing to roll back to
    for _ in range(2):
        assert activate.install(home.node, NEW, lease=None) == {"release": NEW, "current": NEW}
    assert (home.seen()["current"], home.seen()["unit"]) == (NEW, f"[Service]\n# of {NEW}\n")
    assert (home.system.ran, home.seen()["activation"]) == (ran, False)


def test_one_who_was_overtaken_changes_nothing(home: ReleaseHome) -> None:
    configure(home.node, wait_s=0, lease=FencingToken("instance/i-1", 1, 9, "other"))
    before = home.seen()
    old = FencingToken("instance/i-1", 1, 8, "me")
    for act in (
        lambda: activate.activate(home.node, NEW, Options(), lease=old, progress=lambda _: None),
        lambda: confirm(home.node, NEW, lease=old),
        lambda: rollback.rollback(home.node, to=OLD, lease=old),
        lambda: activate.install(home.node, NEW, lease=old),
        lambda: inventory.gc(home.node, keep=2, lease=old),
        lambda: fetch(home.node, home.offer(LOCK), lease=old),
    ):
        with pytest.raises(OutrankedError, match=r"the lease 1\.8 was taken over"):
            act()
    assert home.seen() == before


def test_a_lease_that_is_taken_over_during_the_trial_changes_nothing(home: ReleaseHome) -> None:
    before, ran = home.seen(), list(home.system.ran)
    mine, theirs = FencingToken("instance/i-1", 1, 8, "me"), FencingToken("instance/i-1", 1, 9, "other")

    def taken_over(step: str) -> None:
        if step == "trying":
            configure(home.node, wait_s=0, lease=theirs)

    with pytest.raises(OutrankedError, match=r"the lease 1\.8 was taken over"):
        activate.activate(home.node, NEW, Options(), lease=mine, progress=taken_over)
    assert len(home.slots.trials) == 1
    assert (home.seen(), home.system.ran) == (before, ran)


def test_settings_that_come_with_a_new_release_are_its_own_and_go_with_it(home: ReleaseHome) -> None:
    activate_release(home.node)
    configure(home.node, wait_s=60)
    assert home.seen()["config"] == {"of": "0.20.0"}
    rollback.settle(home.node)
    assert home.seen()["config"] == {"of": "0.19.0"}


def test_a_machine_whose_gateway_is_down_gets_the_release_and_stays_down(home: ReleaseHome) -> None:
    home.system.systemctl("stop", UNIT)
    ran = list(home.system.ran)
    answer, code = activate_release(home.node)
    assert (code, answer["checks"]) == (0, [])
    assert (home.seen()["current"], home.seen()["runs"]) == (NEW, None)
    rollback.settle(home.node)
    assert (home.seen()["current"], home.system.ran) == (OLD, ran)


def test_a_release_is_tried_with_the_users_own_provider_and_without_a_turn_that_the_user_would_pay(
    tmp_path: Path,
) -> None:
    home = make(tmp_path)
    endpoint = ModelEndpoint("openai", "https://api.openai.com/v1", "codex_responses", "gpt-5.2", "sk-proj-0123456789")
    personalise(home.node, home.home.personalised(settings=Settings(endpoint=endpoint)), wait_s=60)
    fetched(home)
    answer, code = activate.activate(home.node, NEW, Options(), lease=None, progress=lambda _: None)
    assert (code, [check["name"] for check in answer["checks"]]) == (0, ["health", "state", "tools"])
    trial = home.slots.trials[0]
    assert not trial.takes_turns
    assert json.loads(trial.new.config)["model"] == {"default": "gpt-5.2", "provider": "custom:own"}
    assert b"AUXILIARY_OWN_API_KEY='sk-proj-0123456789'" in trial.new.environment


def test_a_machine_that_waits_for_its_user_is_tried_without_a_model(tmp_path: Path) -> None:
    home = make(tmp_path)
    home.system.key = placeholder(home.node, "http://10.0.0.1/v1").secrets.api_server_key
    home.system.systemctl("start", UNIT)
    fetched(home)
    answer, code = activate.activate(home.node, NEW, Options(), lease=None, progress=lambda _: None)
    assert (code, [check["name"] for check in answer["checks"]]) == (0, ["health", "state", "tools"])
    assert not home.slots.trials[0].takes_turns
    assert confirm(home.node, NEW, lease=None)["state"] == "active"


def test_a_machine_that_is_nobodys_and_runs_nothing_gets_the_release(tmp_path: Path) -> None:
    home = make(tmp_path)
    fetched(home)
    answer, code = activate_release(home.node)
    assert (code, answer["checks"], home.slots.trials) == (0, [], [])
    assert confirm(home.node, NEW, lease=None)["state"] == "active"
    assert (home.layout.current.readlink().name, home.system.ran) == (NEW, [])


def test_slots_that_nobody_goes_back_to_are_removed(home: ReleaseHome) -> None:
    other = home.layout.releases / "0.1.0-000000000000"
    other.mkdir()
    (other / "release.json").write_text("{}")
    activate_release(home.node)
    confirm(home.node, NEW, lease=None)
    assert inventory.gc(home.node, keep=2, lease=None)["removed"] == [other.name]
    assert home.slots.names() == [OLD, NEW]
    assert inventory.gc(home.node, keep=1, lease=None)["removed"] == [], "the one that is gone back to stays"
    assert {path.name for path in home.layout.blobs.glob("*") if path.is_file()} == {
        blob.sha256 for blob in LOCK.blobs("3.11")
    }


def _effects(folder: Path, act: Callable[[ReleaseHome, Machine], object], rollback_method: str) -> int:
    home, death = _begun(folder, rollback_method), Death()
    act(home, home.mortal(death))
    return death.steps


def _begun(folder: Path, rollback_method: str) -> ReleaseHome:
    folder.mkdir()
    home = lived_in(folder)
    home.slots.tried = TrialResult((Check("health", ok=True),), "copy" if rollback_method == "copy" else "in_place")
    if rollback_method == "copy":
        (home.home.home / "config.yaml").write_text("_config_version: 20\n")
    return home


def _left(_: ReleaseHome, machine: Machine) -> None:
    activate_release(machine)
    rollback.settle(machine)


def _stayed(_: ReleaseHome, machine: Machine) -> None:
    activate_release(machine)
    confirm(machine, NEW, lease=None)


def _returned(home: ReleaseHome, machine: Machine) -> None:
    _stayed(home, machine)
    rollback.rollback(machine, loses=True, lease=None)


@pytest.mark.turns(40)
@pytest.mark.parametrize("timestamp", ["before", "after"])
@pytest.mark.parametrize("rollback_method", ["in_place", "copy"])
@pytest.mark.parametrize("act", [_left, _stayed, _returned])
def test_hermes_node_dies_at_any_effect_and_the_machine_ends_on_one_release_whole(
    act: Callable[[ReleaseHome, Machine], object], rollback_method: str, timestamp: str, tmp_path: Path
) -> None:
    """Whichever it is, slot, unit, managed files, state and the gateway that runs are of the same one."""
    count = _effects(tmp_path / "0", act, rollback_method)
    assert count > 20
    ends = set()
    for at in range(1 + shard() % PARTS, count + 1, PARTS):
        home = _begun(tmp_path / str(at), rollback_method)
        try:
            act(home, home.mortal(Death.before(at) if timestamp == "before" else Death.after(at)))
        except KilledError:
            home.system.sleep(3600)
            if at % 2 == 0:
                home.boot()
        rollback.settle(home.node)
        home_state = home.seen()
        release = home_state["current"]
        ends.add(release)
        of = "0.20.0" if release == NEW else "0.19.0"
        assert home_state["config"] == {"of": of}, at
        assert home_state["unit"] == f"[Service]\n# of {release}\n", at
        assert home_state["runs"] == release, at
        assert [name for name in ("closed", "activation", "held", "drains") if home_state[name]] == [], at
        assert home_state["said"] == "old", at
        # and the same may be asked for once more
        act(home, home.node)
    assert ends <= ({OLD} if act is _left else {OLD, NEW})


def test_hermes_node_dies_while_it_switches_and_nobody_meets_a_mixture_of_two_releases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is written down that it waits to be confirmed, the gate is shut and no boot starts a gateway."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # hundreds of them, and no power is lost here
    shut, down = [], []
    for at in range(1, _effects(tmp_path / "0", _left, "copy") + 1):
        home = _begun(tmp_path / str(at), "copy")
        with pytest.raises(KilledError):
            _left(home, home.mortal(Death.before(at)))
        held = records.load(home.node)
        if held is not None and held.phase is records.Phase.SWITCHING:
            shut.append(home.gate.closed)
        home.boot()
        home_state = home.seen()
        down.append(home_state["runs"] is None)
        if home_state["runs"] == NEW:
            form = (home.home.home / "config.yaml").read_text()
            whole = (home_state["config"], home_state["unit"], form)
            assert whole == ({"of": "0.20.0"}, f"[Service]\n# of {NEW}\n", "_config_version: 33\n"), at
        elif home_state["runs"] == OLD:
            whole = ({"of": "0.19.0"}, f"[Service]\n# of {OLD}\n", "old")
            assert (home_state["config"], home_state["unit"], home_state["said"]) == whole, at
    assert all(shut)
    assert len(shut) > 5
    assert sum(down) > 5


def test_a_running_agent_is_asked_what_it_has_to_answer_after_a_change_too(home: ReleaseHome) -> None:
    before = home.seen()
    answer = activate.ask_untouched(home.node)
    assert [(check["name"], check["ok"]) for check in answer["checks"]] == [("state", True), ("tools", True)]
    home.system.running = False
    assert activate.ask_untouched(home.node) == {"checks": []}
    home.system.running = True
    assert home.seen() == before
