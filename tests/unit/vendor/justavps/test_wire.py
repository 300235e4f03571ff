from datetime import UTC, datetime

import pytest

from hermesops.vendor.justavps.wire import Image, Machine, MachineOrder, MachineStatus
from tests.support.suite.cases import each_case

CANARY = "b3BlbnNzaC1rZXktdjEACANARY"
PEM = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{CANARY}\n-----END OPENSSH PRIVATE KEY-----\n"


def machine(**fields: object) -> Machine:
    return Machine.model_validate({"id": "m1", **fields})


def test_the_root_key_is_nowhere_in_a_parsed_machine() -> None:
    parsed = machine(
        ssh_key={"private_key": PEM, "public_key": "ssh-ed25519 AAAA", "setup_command": f"echo '{PEM}' > key"},
        ssh={"command": f"ssh -i <(echo {PEM}) root@m", "setup_command": f"echo '{PEM}'"},
        connect={"setup_command": f"echo '{PEM}' > key", "ssh_command": "ssh root@m"},
    )
    for text in (repr(parsed), str(parsed), parsed.model_dump_json(), str(parsed.__dict__), str(parsed.model_extra)):
        assert CANARY not in text
        assert "PRIVATE KEY" not in text


@each_case(
    "fields",
    [
        {},
        {"urls": None, "ssh": None, "health": None, "name": None, "backups_enabled": None},
        {"urls": [], "ssh": 5, "health": "fine"},
        {"urls": {"vscode": "https://x", "pty": None, "port_template": None}},
        {"health": {"cpu": 3, "services": {"a": True}, "network": {"rate_in": 1}}},
        {"source": "user", "kortix_sandbox_id": None, "daemon_version": "1"},
    ],
)
def test_missing_and_extra_parts_do_not_matter(fields: dict[str, object]) -> None:
    assert machine(**fields).id == "m1"


def test_a_status_never_met_is_unknown_and_not_an_error() -> None:
    assert machine(status="rebooting").status is MachineStatus.UNKNOWN


def test_the_url_of_a_port_follows_the_template() -> None:
    parsed = machine(slug="edge-1", urls={"port_template": "https://{port}--edge-1.example.net/"})
    assert parsed.url_of_port(8642) == "https://8642--edge-1.example.net"
    parsed = machine(slug="edge-1", urls={"port_template": "http://{port}--{slug}.localhost:4100"})
    assert parsed.url_of_port(80) == "http://80--edge-1.localhost:4100"


def test_without_a_template_no_url_is_made_up() -> None:
    assert machine(slug="edge-1", urls={"proxy": "https://edge-1.example.net"}).url_of_port(80) is None


def test_moments_are_aware() -> None:
    assert machine(created_at="2026-03-01T10:00:00Z").created_at == datetime(2026, 3, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "provider_image_id", "bootable"),
    [("ready", "123", True), ("ready", None, False), ("creating", "123", False), ("odd", "123", False)],
)
def test_an_image_boots_once_the_provider_has_it(status: str, provider_image_id: str | None, bootable: bool) -> None:  # noqa: FBT001
    image = Image.model_validate({"id": "i", "status": status, "provider_image_id": provider_image_id})
    assert image.bootable is bootable


def test_an_order_says_only_what_was_chosen() -> None:
    order = MachineOrder(name="n", server_type="starter", region="hel1")
    assert order.to_wire() == {"name": "n", "server_type": "starter", "region": "hel1"}


def test_what_an_order_hides_is_not_shown() -> None:
    order = MachineOrder(name="n", server_type="s", region="r", env_vars={"KEY": CANARY})
    assert CANARY not in repr(order)
