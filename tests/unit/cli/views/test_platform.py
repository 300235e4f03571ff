"""What ``platform show`` prints of a host."""

from hermesops.cli.views import platform
from hermesops.platform.state import HostState, ServiceState
from hermesops.views import platform as platform_shapes

NGINX = ServiceState("hermes-platform-nginx", "active", is_healthy=True, restarts=0)
LOKI = ServiceState("hermes-platform-loki", "failed", is_healthy=False, restarts=3)


def host(*services: ServiceState) -> HostState:
    return HostState(services, {"nginx": "1.22"}, None, None)


def test_what_is_down_is_named_as_runbooks_look_for_it() -> None:
    assert "down: hermes-platform-loki" in platform.lines(None, {}, host(NGINX, LOKI), connected=False)
    healthy = platform.lines(None, {}, host(NGINX), connected=False)
    assert "no service is down" in healthy
    assert not any("down:" in line for line in healthy)


def test_a_world_with_its_monitoring_alone_says_so_and_shows_its_services() -> None:
    shown = platform_shapes.show(None, {}, host(NGINX, LOKI), connected=False)
    assert (shown["outputs"], shown["healthy"]) == (None, False)
    assert [(service["service"], service["healthy"]) for service in shown["services"]] == [
        ("hermes-platform-nginx", True),
        ("hermes-platform-loki", False),
    ]
    assert "this local world has no platform, and its monitoring alone" in platform.lines(
        None, {}, host(NGINX), connected=False
    )


def test_addresses_of_the_users_half_are_shown_of_a_platform_with_and_without_a_host_of_its_own() -> None:
    links = {"chat_page": "https://chat.example/hermes-max/chat", "sockets": "https://chat.example/relay"}
    for state in (None, host(NGINX)):
        lines = platform.lines(None, links, state, connected=True)
        assert [line.split() for line in lines if "chat.example" in line] == [
            ["chat", "page", "https://chat.example/hermes-max/chat"],
            ["sockets", "https://chat.example/relay"],
        ]
        assert platform_shapes.show(None, links, state, connected=True)["links"] == links
