"""A release whose agent nobody has compared with what hermesops relies on is refused by name, at every step."""

from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.errors import RefusedError
from hermesops.machines.capabilities.lines import CAUTIONS, LINES, capabilities_of, changes, line_of, refuse_unknown
from hermesops.machines.release.releases import Releases
from hermesops.wire.documents.lock import Lock, Managed
from tests.support.releases.package_index import (
    AT,
    Index,
    MemoryStore,
    agent_wheel,
    builder_of,
    order,
    releases_in,
)
from tests.support.releases.signer_lines import lines_of


@pytest.fixture
def releases() -> Releases:
    releases = releases_in(MemoryStore())
    releases.replace_signers(lines_of("ada"), sign_again=False)
    return releases


def built(releases: Releases, folder: Path, version: str, managed: Managed | None = None) -> Lock:
    wheel = folder / f"hermes_agent-{version}-py3-none-any.whl"
    wheel.write_bytes(agent_wheel(version))
    wanted = replace(order(), agent="", wheel=wheel, managed=managed or Managed())
    return builder_of(releases, Index(), folder).build(wanted, who="ada", note="", at=AT).lock


@pytest.mark.parametrize("version", ["0.17.0", "0.23.0", "1.0.0", "2026.9.24", "0.190.0", "1!0.19.0.dev1+x"])
def test_an_agent_of_an_unknown_line_is_refused_by_name_with_the_next_command(version: str) -> None:
    if version == "1!0.19.0.dev1+x":
        assert line_of(version) == "0.19"
        return
    with pytest.raises(RefusedError, match=f"hermes-agent {version} are unknown") as refused:
        capabilities_of(version)
    assert "release build --agent VERSION" in str(refused.value.hint)
    assert ", ".join(LINES) in refused.value.message


@pytest.mark.parametrize("version", ["", "main", "0.19.0; rm -rf /", "x" * 10_000, "0.19.0\x1b[2J"])
def test_what_is_no_version_is_unknown_too(version: str) -> None:
    with pytest.raises(RefusedError, match="are unknown") as refused:
        capabilities_of(version)
    assert len(refused.value.message) < 300


def test_an_unknown_agent_is_not_built_and_nothing_is_kept(releases: Releases, tmp_path: Path) -> None:
    before = dict(releases.store.held)  # type: ignore[attr-defined]  # a store in memory
    with pytest.raises(RefusedError, match=r"hermes-agent 0\.30\.0 are unknown"):
        built(releases, tmp_path, "0.30.0")
    assert releases.store.held == before  # type: ignore[attr-defined]  # as above
    assert releases.ids() == frozenset()


def test_it_is_neither_signed_nor_rolled_out_nor_handed_to_a_machine(releases: Releases, tmp_path: Path) -> None:
    known = built(releases, tmp_path, "0.19.0")
    unknown = replace(known, agent_version="0.30.0")
    with pytest.raises(RefusedError, match=r"hermes-agent 0\.30\.0 are unknown"):
        releases.put(unknown, who="ada", note="", at=AT)
    with pytest.raises(RefusedError, match=r"hermes-agent 0\.30\.0 are unknown"):
        releases.refuse_revoked(unknown)
    assert releases.ids() == {known.id}


def test_one_that_another_computer_has_signed_reaches_no_machine(
    releases: Releases, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = replace(built(releases, tmp_path, "0.19.0"), agent_version="0.30.0")
    with monkeypatch.context() as patched:
        patched.setattr("hermesops.machines.release.releases.refuse_unknown", lambda _: None)
        releases.put(unknown, who="ada", note="", at=AT)
    with pytest.raises(RefusedError, match=r"hermes-agent 0\.30\.0 are unknown"):
        releases.handout(unknown.id, "3.11")


def test_a_simulated_agent_is_our_own(releases: Releases, tmp_path: Path) -> None:
    lock = built(releases, tmp_path, "0.19.0")
    refuse_unknown(replace(lock, agent_version="9.9", origin="simulated", pythons={}))


def test_a_later_agent_gets_the_settings_that_it_needs_below_an_operators(releases: Releases, tmp_path: Path) -> None:
    managed = built(releases, tmp_path, "0.21.5").managed
    assert managed.environment == {"TERMINAL_TEMP_DIR": "/tmp"}  # noqa: S108 - the gateway's own
    assert managed.config["plugins"] == {"disabled": ["a2a-platform", "buzz-platform"]}
    theirs = Managed({"plugins": {"disabled": []}}, {"TERMINAL_TEMP_DIR": "/var/tmp"})  # noqa: S108 - as above
    managed = built(releases, tmp_path, "0.22.0", managed=theirs).managed
    assert (managed.config["plugins"], managed.environment) == ({"disabled": []}, theirs.environment)
    assert "plugins" not in built(releases, tmp_path, "0.19.0").managed.config


def test_the_operator_is_cautioned_about_a_known_fault(releases: Releases, tmp_path: Path) -> None:
    lines: list[str] = []
    wheel = tmp_path / "hermes_agent-0.20.0-py3-none-any.whl"
    wheel.write_bytes(agent_wheel("0.20.0"))
    builder = replace(builder_of(releases, Index(), tmp_path), report=lines.append)
    builder.build(replace(order(), agent="", wheel=wheel), who="ada", note="", at=AT)
    assert [line for line in lines if "60 GB" in line] == [f"caution, hermes-agent 0.20.0: {CAUTIONS['0.20.0']}"]


def test_changes_are_the_facts_that_differ() -> None:
    names = {fact.name for fact, _, _ in changes("0.19.0", "0.21.5")}
    assert {"config: schema", "unit: scratch of terminal commands", "relay: operations"} < names
    assert "log: format of a line" not in names
    assert changes("0.19.0", "0.19.1") == ()
