"""Break glass on the machine: what opens sshd, what does not, and that it closes; signatures are real."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermesops.programs.node.instance import certificate
from hermesops.programs.node.orders import poll
from hermesops.wire.documents.handout import Signed
from hermesops.wire.documents.orders import LONGEST_S, BreakGlassOrder, SshHost
from hermesops.wire.documents.signers import AllowedSigners, Kind
from hermesops.wire.errors import NotReadyError
from hermesops.wire.layout import BREAK_GLASS_UNIT as UNIT
from tests.support.crash.death import KilledError, raise_killed
from tests.support.fakes.machines.polled_machine import HOST_KEY, PolledMachine, polled_machine
from tests.support.releases.signer import Operator


@pytest.fixture
def polled(tmp_path: Path) -> PolledMachine:
    return polled_machine(tmp_path)


def is_shut(polled: PolledMachine) -> bool:
    layout = polled.layout
    left = [path for path in (layout.break_glass, layout.break_glass_keys, layout.break_glass_config) if path.exists()]
    return not left and not polled.ssh.admitted and not polled.systemd.active


def test_an_order_opens_sshd_for_one_key_and_one_network_until_it_expires(polled: PolledMachine) -> None:
    order = polled.order()
    became = polled.hand(polled.signed(order))
    assert became == {"order": order.id, "state": "open", "why": "", "address": "192.0.2.1"}
    assert polled.ssh.until == {"192.0.2.7/32": order.expires}
    assert polled.systemd.active == {UNIT}
    layout = polled.layout
    assert layout.break_glass_keys.read_text() == f'restrict,pty,from="192.0.2.7/32" {order.key} {order.id}\n'
    config = layout.break_glass_config.read_text().splitlines()
    assert {"ListenAddress 192.0.2.1", "DisableForwarding yes", "UsePAM no", "PasswordAuthentication no"} < set(config)
    unit = layout.break_glass_unit.read_text()
    assert "\nRuntimeMaxSec=1800\n" in unit
    assert "\nKillMode=control-group\n" in unit
    document = json.loads(layout.break_glass.read_text())
    assert (document["open"], document["order"], document["expires"], document["by"]) == (
        True,
        order.id,
        order.expires,
        "ada@example.net",
    )
    assert all(path.stat().st_mode & 0o077 == 0 for path in (layout.break_glass, layout.break_glass_keys))


def test_the_platform_hears_at_once_and_knows_the_host_key(polled: PolledMachine) -> None:
    polled.hand(polled.signed(polled.order()))
    first, second = polled.platform.reports
    assert (first.host, first.break_glass) == (SshHost(HOST_KEY, "10.0.0.7"), None)
    assert second.break_glass is not None
    assert (second.host, second.break_glass.state) == (first.host, "open")
    polled.ask()
    assert polled.ssh.made == 1
    assert polled.layout.ssh_host_key.stat().st_mode & 0o777 == 0o600


def test_the_same_order_leaves_it_open_and_is_not_prolonged(polled: PolledMachine) -> None:
    signed = polled.signed(polled.order())
    polled.hand(signed)
    until, count = dict(polled.ssh.until), len(polled.systemd.told)
    polled.systemd.sleep(60)
    longer = polled.signed(polled.order(expires=int(polled.systemd.now()) + 4000))
    for again in (signed, longer):  # of the same id
        became = polled.hand(again)
        assert became is not None
        assert became["state"] == "open"
    assert (polled.ssh.until, len(polled.systemd.told)) == (until, count)
    polled.ssh.until.clear()  # the rules were loaded anew
    polled.hand(signed)
    assert polled.ssh.until == until


def test_it_is_ended_early(polled: PolledMachine) -> None:
    polled.hand(polled.signed(polled.order()))
    became = polled.hand(None)
    assert became is not None
    assert (became["state"], became["why"]) == ("closed", "the access was ended early")
    assert is_shut(polled)
    assert polled.hand(None) is None


def test_it_is_closed_when_its_time_is_over_also_without_a_platform(polled: PolledMachine) -> None:
    signed = polled.signed(polled.order())
    polled.hand(signed)
    polled.systemd.sleep(1800)

    def silent(*_: object) -> Any:  # noqa: ANN401 - never returns
        raise NotReadyError("no answer")

    with pytest.raises(NotReadyError, match="no answer"):
        poll.ask(replace(polled.machine, ask_orders=silent))
    assert is_shut(polled)
    became = polled.hand(signed)
    assert became is not None
    assert became["state"] == "refused"
    assert is_shut(polled)


def test_an_order_opens_nothing_a_second_time(polled: PolledMachine) -> None:
    signed = polled.signed(polled.order())
    polled.hand(signed)
    polled.hand(None)
    refused = polled.hand(signed)
    assert refused is not None
    assert (refused["state"], "used before" in refused["why"]) == ("refused", True)
    assert is_shut(polled)


def test_after_a_boot_it_stays_closed(polled: PolledMachine) -> None:
    signed = polled.signed(polled.order())
    polled.hand(signed)
    for path in polled.layout.root.glob("run/**/*break-glass*"):
        path.unlink()
    polled.systemd.active.clear()
    polled.ssh.until.clear()
    refused = polled.hand(signed)
    assert refused is not None
    assert "used before" in refused["why"]
    assert is_shut(polled)


def test_an_sshd_that_ended_is_not_said_to_be_open(polled: PolledMachine) -> None:
    polled.hand(polled.signed(polled.order()))
    polled.systemd.active.clear()
    polled.ask()
    assert is_shut(polled)


def test_killed_before_it_was_open_it_stays_closed(polled: PolledMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    signed = polled.signed(polled.order())
    with monkeypatch.context() as patch:
        patch.setattr(polled.ssh, "let_in", raise_killed)
        with pytest.raises(KilledError):
            polled.hand(signed)
    assert polled.ssh.admitted == []
    # sshd runs behind closed rules; the next question opens them for the time that is left, or ends it.
    polled.systemd.sleep(600)
    polled.hand(signed)
    assert polled.ssh.until == {"192.0.2.7/32": polled.order().not_before - 600 + 1800}


def test_another_order_replaces_the_one_before(polled: PolledMachine) -> None:
    polled.hand(polled.signed(polled.order()))
    polled.hand(polled.signed(polled.order(id="1" * 32, source="198.51.100.0/24")))
    assert polled.ssh.admitted == ["198.51.100.0/24"]
    assert 'from="198.51.100.0/24"' in polled.layout.break_glass_keys.read_text()


def test_an_sshd_that_does_not_start_is_told_and_nothing_stays_open(
    polled: PolledMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemctl = polled.systemd.systemctl

    def failing(*words: str, check: bool = True) -> str:
        if words[0] == "start":
            raise NotReadyError("systemctl start: Job failed")
        return systemctl(*words, check=check)

    monkeypatch.setattr(polled.systemd, "systemctl", failing)
    refused = polled.hand(polled.signed(polled.order()))
    assert refused is not None
    assert (refused["state"], refused["why"]) == ("refused", "systemctl start: Job failed")
    assert is_shut(polled)


def test_rules_of_before_break_glass_are_told_and_nothing_stays_open(
    polled: PolledMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise NotReadyError("nft -f: No such file or directory")

    monkeypatch.setattr(polled.ssh, "let_in", missing)
    monkeypatch.setattr(polled.ssh, "shut_out", missing)
    refused = polled.hand(polled.signed(polled.order()))
    assert refused is not None
    assert (refused["state"], refused["why"]) == ("refused", "nft -f: No such file or directory")
    assert is_shut(polled)


Forge = Callable[[PolledMachine, Operator], Signed]


def _changed(**changes: Any) -> Forge:  # noqa: ANN401 - of any field
    """An order that the signer did sign so."""
    return lambda polled, _: polled.signed(polled.order(**changes))


def _tampered(**changes: Any) -> Forge:  # noqa: ANN401 - as above
    """An order that was changed after it was signed."""

    def forge(polled: PolledMachine, _: Operator) -> Signed:
        signature = polled.signed(polled.order()).signature
        return Signed(polled.order(**changes).to_json().decode(), signature)

    return forge


def _text(change: Callable[[str], str]) -> Forge:
    """A text that the signer did sign so."""
    return lambda polled, _: polled.signer.signed(change(polled.order().to_json().decode()), Kind.BREAK_GLASS)


OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBlqb3R2b3d1Y2VmYW1lZHNhbWRhb3Bvd3Jpb3NhZGZz"
NOW = 1_800_000_000
REFUSED: dict[str, tuple[Forge, str]] = {
    "signed by a stranger": (lambda polled, eve: polled.signed(polled.order(), by=eve), "by no release signer"),
    "signed as a release": (
        lambda polled, _: polled.signed(polled.order(), kind=Kind.LOCK),
        "is not valid for this text",
    ),
    "no signature": (lambda polled, _: Signed(polled.order().to_json().decode(), ""), "by no release signer"),
    "another key put in": (_tampered(key=OTHER_KEY), "is not valid for this text"),
    "another source put in": (_tampered(source="198.51.100.9/32"), "is not valid for this text"),
    "a later expiry put in": (_tampered(expires=NOW + 3600), "is not valid for this text"),
    "another id put in": (_tampered(id="1" * 32), "is not valid for this text"),
    "another machine's": (_changed(machine="m-2"), "for machine m-2"),
    "another instance's": (_changed(instance="i-2"), "for instance i-2"),
    "another environment's": (_changed(environment="production"), "of production"),
    "expired": (_changed(not_before=NOW - 900, expires=NOW), "expired at 2027-01-15 08:00:00"),
    "of the future": (_changed(not_before=NOW + 301, expires=NOW + 900), "is valid from"),
    "valid for a day": (_changed(expires=NOW + 86400), "not within 4 h"),
    "valid for no time": (_changed(expires=NOW), "not within 4 h"),
    "open to everybody": (_changed(source="0.0.0.0/0"), "wider than /24"),
    "open to many of IPv6": (_changed(source="2001::/16"), "or /48 of IPv6"),
    "open to the machine itself": (_changed(source="127.0.0.1/32"), "can reach a machine"),
    "a source that is none": (_changed(source='192.0.2.7/32"\nListenAddress 0.0.0.0'), "order.source"),
    "a source of another spelling": (_changed(source="192.0.2.7"), "spelled 192.0.2.7/32"),
    "a name for a source": (_changed(source="example.net"), "not a network"),
    "a key with options": (_changed(key=f'command="x" {OTHER_KEY}'), "order.key"),
    "two keys": (_changed(key=f"{OTHER_KEY}\n{OTHER_KEY}"), "order.key"),
    "a key of another type": (_changed(key=OTHER_KEY.replace("ssh-ed25519", "ssh-rsa")), "order.key"),
    "an id that is a path": (_changed(id="../" * 10 + "aa"), "order.id"),
    "no JSON": (_text(lambda text: text[:-2]), "not JSON"),
    "no object": (_text(lambda _: "[]"), "not an object"),
    "one field more": (_text(lambda text: text.replace('{"', '{"run":"x","', 1)), "unknown field run"),
    "one field less": (_text(lambda text: text.replace('"machine":"m-1",', "")), "lacks machine"),
    "a field twice": (_text(lambda text: text.replace('{"', '{"machine":"m-2","', 1)), "not JSON"),
    "a number as text": (
        _text(lambda text: text.replace('"not_before":', '"not_before":"').replace("}", '"}')),
        "order",
    ),
    "another format": (_text(lambda text: text.replace('"format":1', '"format":2')), "format"),
    "other spaces": (_text(lambda text: text.replace(":", ": ", 1)), "not canonical"),
    "more than an order is": (_text(lambda text: text[:-2] + " " * (16 << 10) + "}\n"), "more than 16384"),
    "nested deep": (_text(lambda _: "[" * 5000), "not JSON"),
}


@pytest.mark.parametrize("which", REFUSED)
def test_what_is_refused_opens_nothing_and_is_told(polled: PolledMachine, tmp_path: Path, which: str) -> None:
    forge, why = REFUSED[which]
    became = polled.hand(forge(polled, Operator(tmp_path, "eve")))
    assert became is not None
    assert became["state"] == "refused"
    assert why in became["why"]
    assert is_shut(polled)
    assert polled.platform.reports[-1].break_glass is not None
    assert not polled.layout.break_glass_spent.exists()
    good = polled.hand(polled.signed(polled.order()))
    assert good is not None
    assert good["state"] == "open"


def test_a_signer_of_releases_alone_orders_nothing_here(polled: PolledMachine, tmp_path: Path) -> None:
    bob = Operator(tmp_path, "bob")
    lines = f'bob@example.net namespaces="hermesops-release" {bob.signers.public()}\n'
    polled.layout.signers.write_bytes(AllowedSigners(1, lines).to_json())
    became = polled.hand(polled.signed(polled.order(), by=bob))
    assert became is not None
    assert "is not valid for this text" in became["why"]


def test_a_machine_without_signers_believes_nobody(polled: PolledMachine) -> None:
    polled.layout.signers.unlink()
    became = polled.hand(polled.signed(polled.order()))
    assert became is not None
    assert "knows no signers" in became["why"]


def test_a_damaged_list_of_used_orders_opens_nothing(polled: PolledMachine) -> None:
    polled.layout.break_glass_spent.write_text("{")
    became = polled.hand(polled.signed(polled.order()))
    assert became is not None
    assert "is damaged" in became["why"]
    assert is_shut(polled)


def test_a_damaged_state_counts_as_open_and_is_closed(polled: PolledMachine) -> None:
    polled.layout.break_glass.write_text("{")
    polled.ask()
    assert is_shut(polled)
    assert f"stop {UNIT}" in polled.systemd.told


def test_metrics_go_on_whatever_the_order_is(polled: PolledMachine) -> None:
    url = "https://10.0.0.1:8443"
    polled.ask(ingest=url, break_glass={"text": "[]", "signature": "x"})
    assert url in polled.layout.ingest.read_text()


def test_a_copied_disk_gets_a_host_key_of_its_own(polled: PolledMachine) -> None:
    polled.ask()
    certificate.request(polled.machine, anew=True)
    assert not polled.layout.ssh_host_key.exists()
    assert not polled.layout.ssh_host_public.exists()


def test_an_order_survives_being_written_and_read(polled: PolledMachine) -> None:
    order = polled.order(source="2001:db8::/64", expires=NOW + LONGEST_S)
    assert BreakGlassOrder.from_json(order.to_json()) == order
