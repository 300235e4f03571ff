"""Checks of the agent, on machines with an instance.

Each check runs its commands first and judges afterwards; see ``MachineCheck``.
"""

import json

from testinfra.host import Host

from hermesops.errors import Hint
from hermesops.machines.release.sqlite import is_sound
from hermesops.machines.verify.checks.promise import (
    CONVERGE,
    GATEWAY,
    Expected,
    Promise,
    broken_unless,
    modes,
    output_of,
    running,
    unit,
)
from hermesops.machines.verify.observations import observed
from hermesops.wire.foreign_text import quoted

_OK = 200


def _gateway(host: Host, _: Expected) -> str:
    observations = observed(host)
    # systemd is told "ready" a second after the API answers; a verification may run in between.
    if unit(host, GATEWAY).get("ActiveState") == "activating" and observations.alive_status == _OK:
        return "answers, about to be called ready"
    return running(host, GATEWAY)


def _release(host: Host, _: Expected) -> str:
    observations = observed(host)
    release, runs = observations.release, observations.version
    broken_unless(release.get("id"), "/opt/hermes/current points at no slot")
    broken_unless(release.get("hermes_agent"), f"slot {release.get('id')} has no record: it was never completed")
    broken_unless(
        runs == release["hermes_agent"],
        f"slot {release['id']} holds {release['hermes_agent']}, running is {runs or '?'}",
    )
    return f"{release['id']}, running {runs}"


def _secrets(host: Host, _: Expected) -> str:
    return modes(
        host,
        {
            "/etc/hermes": "root:hermes 750",
            "/etc/hermes/.env": "root:hermes 640",
            "/etc/hermes/config.yaml": "root:hermes 640",
            "/etc/hermes-node": "root:root 700",
            "/etc/hermes-node/gateway.json": "root:root 600",
            "/etc/hermes-node/identity.json": "root:root 600",
            "/etc/hermes-node/instance.json": "root:root 600",
        },
    )


def _handed(host: Host, _: Expected) -> str:
    broken_unless(observed(host).handed, "/etc/hermes-node/instance.json is no JSON: hermes-node cannot read it")
    return "readable"


def _identity(host: Host, expected: Expected) -> str:
    identity = observed(host).identity
    broken_unless(identity is not None, "the machine has no instance")
    here = f"instance {(identity or {}).get('instance')}, epoch {(identity or {}).get('epoch')}"
    there = f"instance {expected.instance_id}, epoch {expected.epoch}"
    broken_unless(here == there, f"{here}; the registry says {there}")
    return here


def _api(host: Host, _: Expected) -> str:
    observations = observed(host)
    broken_unless(
        observations.alive_status == _OK, f"/health: {observations.alive_status or observations.alive_reason}"
    )
    return f"/health answers, {observations.version}"


def _key(host: Host, expected: Expected) -> str:
    observations = observed(host)
    broken_unless(observations.key_digest, "there is no API key in /etc/hermes/.env")
    broken_unless(
        expected.key_digest in {"", observations.key_digest}, "the key on the machine is not the one in the registry"
    )
    broken_unless(
        observations.detailed_status == _OK, f"/health/detailed with the machine's key: {observations.detailed_status}"
    )
    return "accepted"


def _ready(host: Host, _: Expected) -> str:
    observations = observed(host)
    broken_unless(
        observations.verdict == "ok" and observations.gateway_state == "running",
        quoted(" ".join((observations.verdict, observations.gateway_state, *observations.failing)))
        if observations.verdict
        else "no answer",
    )
    return "ready, accepting turns"


def _sqlite(host: Host, _: Expected) -> str:
    shown = json.loads(output_of(host, "hermes-node sqlite"))
    path, version, node = (str(shown[name]) for name in ("path", "version", "node"))
    broken_unless(
        is_sound(version),
        f"the gateway uses SQLite {version or 'of an unknown version'} ({quoted(path or 'no library is mapped')}): "
        "3.7.0 to 3.51.2 can corrupt the agent's databases",
    )
    broken_unless(is_sound(node), f"hermes-node opens the agent's databases with SQLite {quoted(node)}")
    return f"{version}, hermes-node {node}"


def _watchdog(host: Host, _: Expected) -> str:
    unit = observed(host).unit
    if unit.get("Type") == "simple":
        return "none: this release's unit tells systemd nothing"
    watched = unit.get("WatchdogUSec", "")
    broken_unless(watched not in {"", "0", "infinity"}, "systemd does not watch the gateway")
    return f"every {watched}"


def _model(host: Host, _: Expected) -> str:
    observations = observed(host)
    broken_unless(
        observations.has_model_key,
        f"{observations.key_variable or 'no variable'} is not set: the key of the agent's models is missing",
    )
    if observations.has_own_provider:
        return f"{observations.model} of the user's own provider, key set"
    broken_unless(
        observations.router_status == _OK,
        f"the model router answers {observations.router_status or 'nothing: ' + observations.router_reason}",
    )
    broken_unless(
        observations.model in observations.offered,
        f"model {observations.model!r} is none of {', '.join(observations.offered)}",
    )
    return f"{observations.model}, token accepted"


def _skills(host: Host, _: Expected) -> str:
    observations = observed(host)
    broken_unless(
        observations.home_kept,
        f"{observations.home} lies on {observations.filesystem or '?'}: it is forgotten at every restart",
    )
    broken_unless(observations.skills >= 1, f"no skills in {observations.home}/skills")
    return f"{observations.skills} skills, on {observations.filesystem}"


def _user_settings(host: Host, _: Expected) -> str:
    observations = observed(host)
    broken_unless(
        observations.user_settings > 0,
        f"no config.yaml in {observations.home}, or an empty one: the user's settings are lost",
    )
    return f"{observations.user_settings} bytes"


def _chat(host: Host, expected: Expected) -> str:
    chat = observed(host, f"chat {expected.session}").chat
    if chat.get("own") is True:
        return "no turn taken: the user's own provider would bill the user"
    why = chat.get("error") or chat.get("finish")
    broken_unless(
        chat.get("status") == _OK and chat.get("answered"),
        f"a turn ended with {chat.get('status')}: {quoted(str(why)) if why else 'no answer'}",
    )
    broken_unless(chat.get("session_removed"), f"session {expected.session} was left behind")
    return "answered"


AGENT_PROMISES = (
    Promise(
        "gateway-service",
        "the gateway's unit runs",
        _gateway,
        Hint(("instance", "logs", "USER"), ", then", ("instance", "restart", "USER")),
    ),
    Promise("release", "the running agent is the slot's", _release, Hint(("instance", "restart", "USER"))),
    Promise(
        "secrets", "files with secrets are private", _secrets, Hint(("provision", "USER"), "hands them over again")
    ),
    Promise(
        "payload",
        "the instance's data on the machine are readable",
        _handed,
        Hint(("provision", "USER"), "hands it over again"),
    ),
    Promise("identity", "the machine belongs to the instance", _identity, Hint("stop;", ("instance", "show", "USER"))),
    Promise("api", "the agent's API answers", _api, Hint(("instance", "logs", "USER"))),
    Promise("key", "the agent accepts the registry's key", _key, Hint(("provision", "USER"), "hands it over again")),
    Promise("ready", "the agent is ready for turns", _ready, Hint(("instance", "logs", "USER"))),
    Promise(
        "sqlite",
        "the gateway's SQLite does not corrupt databases",
        _sqlite,
        Hint(
            ("instance", "restart", "USER"),
            "if its release has a SQLite of its own (",
            ("release", "show", "RELEASE"),
            "); else roll out one that has:",
            ("release", "build"),
        ),
    ),
    Promise("watchdog", "systemd watches the gateway", _watchdog, CONVERGE),
    Promise(
        "model", "the model router knows token and model", _model, Hint(("provision", "USER"), "hands them over again")
    ),
    Promise("skills", "skills and memories outlive a restart", _skills, CONVERGE),
    Promise(
        "user-settings",
        "the user's own settings are there",
        _user_settings,
        Hint(("backup", "restore", "USER"), "brings them back, with all else of that backup"),
    ),
    Promise("chat", "a message is answered", _chat, Hint(("instance", "logs", "USER")), slow=True),
)
"""In the order for people to read."""
