"""What every alert rule has to do: when it fires, what does not make it fire, and what bad series never hide."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hermesops.programs.ingest.heartbeats import PREFIX
from tests.support.alerts.promtool import Case, Kind, Labels

EVERY_S = 15

ADA: Labels = {"instance_id": "ada", "cell": "cell-1"}
BOB: Labels = {"instance_id": "bob", "cell": "cell-1"}
CY: Labels = {"instance_id": "cy", "cell": "cell-1"}
LOST: Labels = {"cell": "cell-1"}

Series = dict[str, str]

_SOCKET = 'hermesops_instance_socket{instance_id="NAME"}'
"""Of the monitor, whether an agent has a socket to the connector."""


def steady(value: float | str, seconds: int, every_s: int = EVERY_S) -> str:
    """The same value all the time."""
    count = seconds // every_s
    return f"{value}x{count}" if isinstance(value, float | int) else " ".join([value] * count)


def then(*spans: tuple[float | str, int], every_s: int = EVERY_S) -> str:
    """One value after another, each for so many seconds; ``_`` is a gap."""
    parts = []
    for value, seconds in spans:
        count = seconds // every_s
        parts.append(f"{value}x{count}" if value == "_" else " ".join([str(value)] * count))
    return " ".join(parts)


def growing(per_step: float, seconds: int, begin: float = 0, every_s: int = EVERY_S) -> str:
    """A value that grows with each step."""
    return f"{begin}{per_step:+}x{seconds // every_s}"


def monitor(seconds: int, every_s: int = EVERY_S) -> Series:
    """A monitor that makes its passes."""
    return {"hermesops_monitor_pass_seconds": steady(0.5, seconds, every_s)}


def instance(
    name: str,
    seconds: int,
    *,
    cell: str = "cell-1",
    silent_after_s: int | None = None,
    agent: str | None = None,
    every_s: int = EVERY_S,
) -> Series:
    """One that the monitor expects, whose machine reports for so long, and whose agent answers.

    Args:
        agent: Values of ``hermes_agent_up`` in the place of 1.
    """
    reported = seconds if silent_after_s is None else silent_after_s
    return {
        f'hermesops_instance_expected{{instance_id="{name}", cell="{cell}"}}': steady(1, seconds, every_s),
        of(f"{PREFIX}timestamp_seconds", name): growing(every_s, reported, every_s=every_s),
        of("hermes_agent_up", name): agent or steady(1, reported, every_s),
        of("hermes_gateway_up", name): steady(1, reported, every_s),
    }


def of(metric: str, name: str = "ada", **labels: str) -> str:
    """A series of an instance's machine; of its heartbeat, what the platform tells of it."""
    if metric.startswith(PREFIX):
        labels["origin"] = "platform"
    more = "".join(f', {key}="{value}"' for key, value in labels.items())
    return f'{metric}{{instance_id="{name}", cell="cell-1", machine="m-{name}"{more}}}'


def anybodys(metric: str, values: str, **labels: str) -> Series:
    """A series of the platform's host as an instance's machine, one without a user and a service may write it."""
    more = "".join(f', {key}="{value}"' for key, value in labels.items())
    return {
        of(metric, **labels): values,
        f'{metric}{{machine="m-pool"{more}}}': values,
        f'{metric}{{source="web"{more}}}': values,
    }


def busy(name: str, seconds: int, every_s: int = EVERY_S) -> Series:
    """An operation that holds the instance all the time."""
    return {f'hermesops_instance_busy{{instance_id="{name}"}}': steady(1, seconds, every_s)}


def world(seconds: int, *names: str, every_s: int = EVERY_S) -> Series:
    """A monitor, and healthy instances."""
    series = monitor(seconds, every_s)
    for name in names or ("ada",):
        series |= instance(name, seconds, every_s=every_s)
    return series


def _ended(seconds: int, name: str, *, failed: float | str, ok: float | str) -> Series:
    """Cron jobs of an instance that ended, from 300 s on."""
    outcomes = {"failed": failed, "ok": ok}
    return {
        of("hermes_jobs_ended", name, outcome=outcome): then((0, 300), (number, seconds - 300))
        for outcome, number in outcomes.items()
    }


def _well(number: int) -> tuple[str, ...]:
    return tuple(f"well-{each}" for each in range(number))


def _simple(
    series: Series,
    bad: Series,
    good: Series,
    fires_at: int,
    labels: Labels,
    *,
    seconds: int,
    before: int,
    **options: Any,  # noqa: ANN401 - passed on to Case
) -> tuple[Case, ...]:
    """Fires; not just below; not while busy.

    Args:
        bad: Series that make it fire at ``fires_at`` seconds, and not ``before``.
        good: Such as just do not.
        options: Further ones of ``Case``.
    """
    case: Any = partial(Case, **{"scope": "instance", **options})
    held = busy(labels["instance_id"], seconds, options.get("every_s", EVERY_S))
    return (
        case(Kind.FIRES, "it fires in time", series | bad, {before: (), fires_at: (labels,)}),
        case(Kind.BELOW, "just below", series | good, {fires_at: (), seconds: ()}),
        case(Kind.BUSY, "an operation holds it", series | bad | held, {fires_at: (), seconds: ()}),
    )


def _fleet(
    alert_series: Mapping[str, str], *, fires_at: int, seconds: int, others: Series | None = None
) -> tuple[Case, ...]:
    """Fires once for three; not for two of them.

    Args:
        alert_series: Makes the alert of ``NAME`` fire; for three names in its place.
    """
    names = ("ada", "bob", "cy")
    base = world(seconds, *names) | (others or {})

    def bad(*which: str) -> Series:
        return {key.replace("NAME", name): value for name in which for key, value in alert_series.items()}

    return (
        Case(Kind.FIRES, "three have it", base | bad(*names), {fires_at: ({},)}, scope="fleet"),
        Case(Kind.BELOW, "two have it", base | bad("ada", "bob"), {fires_at: (), seconds: ()}, scope="fleet"),
        Case(
            Kind.BELOW,
            "three of sixteen have it",
            base | bad(*names) | world(seconds, *(f"other-{number}" for number in range(13))),
            {fires_at: ()},
            scope="fleet",
        ),
    )


def _silent(names: Sequence[str], cell: str, seconds: int, after_s: int) -> Series:
    series = Series()
    for name in names:
        series |= instance(name, seconds, cell=cell, silent_after_s=after_s)
    return series


def _cells(lost: str, seconds: int, **numbers: int) -> Series:
    """So many instances in each cell; those of the lost ones (comma-separated) are silent after 300 s."""
    series = monitor(seconds)
    for cell, number in numbers.items():
        names = [f"{cell}-{index}" for index in range(number)]
        after_s = 300 if cell in lost.split(",") else seconds
        series |= _silent(names, cell, seconds, after_s)
    return series


_HEARTBEAT = of(f"{PREFIX}timestamp_seconds")
_OFFSET = of(f"{PREFIX}clock_offset_seconds")
_FENCED = of(f"{PREFIX}fenced")


def _flapping(seconds: int, *, heard_s: int, silent_s: int) -> str:
    """Heartbeats of a machine that is heard and silent by turns."""
    period = heard_s + silent_s
    return " ".join(str(at) if at % period < heard_s else "_" for at in range(0, seconds, EVERY_S))


HEARTBEATS: dict[str, tuple[Case, ...]] = {
    "HeartbeatMissed": (
        Case(
            Kind.FIRES,
            "the last heartbeat is of 300 s; it fires by 395 s and is over five minutes after the next one",
            monitor(1200)
            | instance("ada", 1200)
            | {_HEARTBEAT: f"{growing(15, 300)} _x19 {growing(15, 600, begin=600)}"},
            {390: (), 395: (ADA,), 595: (ADA,), 895: (ADA,), 910: ()},
        ),
        Case(
            Kind.FIRES,
            "an instance that was never heard is silent once it had the time",
            monitor(300) | {'hermesops_instance_expected{instance_id="ada", cell="cell-1"}': steady(1, 300)},
            {85: (), 95: (ADA,)},
        ),
        Case(
            Kind.FIRES,
            "a machine that comes and goes every five minutes is one alert, not one each time",
            monitor(3600) | instance("ada", 3600) | {_HEARTBEAT: _flapping(3600, heard_s=120, silent_s=180)},
            {180: (), **dict.fromkeys(range(215, 3600, 100), (ADA,))},
            evaluated_s=15,
        ),
        Case(
            Kind.BELOW,
            "two heartbeats are missed",
            monitor(900) | instance("ada", 900) | {_HEARTBEAT: f"{growing(15, 300)} _x5 {growing(15, 450, begin=390)}"},
            {385: (), 390: (), 395: (), 400: (), 700: ()},
        ),
        Case(
            Kind.BUSY,
            "an operation holds it",
            monitor(900) | instance("ada", 900, silent_after_s=300) | busy("ada", 900),
            {395: (), 800: ()},
        ),
        Case(
            Kind.BUSY,
            "an operation restarts it and ends: 90 s to be heard again",
            monitor(900)
            | instance("ada", 900, silent_after_s=300)
            | {'hermesops_instance_busy{instance_id="ada"}': steady(1, 600)},
            {660: (), 760: (), 775: (ADA,)},
        ),
        Case(
            Kind.BUSY,
            "an operation of a minute, shorter than what has to pass: 90 s after it as well, also in another cell",
            monitor(900)
            | instance("ada", 900)
            | {_HEARTBEAT: f"{growing(15, 300)} _x9 {growing(15, 450, begin=450)}"}
            | {
                'hermesops_instance_busy{instance_id="ada"}': then((0, 330), (1, 60), (0, 510)),
                'hermesops_instance_expected{instance_id="ada", cell="cell-1"}': then((1, 390), (0, 510)),
                'hermesops_instance_expected{instance_id="ada", cell="cell-2"}': then(("_", 390), (1, 510)),
            },
            dict.fromkeys(range(330, 900, 10), ()),
        ),
        Case(
            Kind.FIRES,
            "the first one of a lost cell that is silent waits while the loss is pending",
            _cells("", 900, **{"cell-1": 2, "cell-2": 4})
            | instance("cell-1-0", 900, silent_after_s=300)
            | instance("cell-1-1", 900, silent_after_s=330)
            | {of(f"{PREFIX}timestamp_seconds", "cell-1-1"): f"{growing(15, 315)} 328"},
            {395: (), 400: (), 410: ({"instance_id": "cell-1-0", "cell": "cell-1"},)},
        ),
        Case(
            Kind.HOSTILE,
            "heartbeats that are NaN are none",
            world(900) | {_HEARTBEAT: f"{growing(15, 300)} {then(('NaN', 600))}"},
            {395: (ADA,), 800: (ADA,)},
        ),
        Case(
            Kind.HOSTILE,
            "a heartbeat that is sent again and again, and does not change, is none",
            world(900) | {_HEARTBEAT: f"{growing(15, 300)} {then((300, 600))}"},
            {390: (), 395: (ADA,), 800: (ADA,)},
        ),
        Case(
            Kind.HOSTILE,
            "a heartbeat of the future is none",
            world(900) | {_HEARTBEAT: f"{growing(15, 300)} {then(('+Inf', 300), (99999, 300))}"},
            {395: (ADA,), 600: (ADA,), 800: (ADA,)},
        ),
        Case(
            Kind.HOSTILE,
            "a machine that says its clock is off, though it is not, is not made healthy for longer than it lives",
            monitor(1200)
            | instance("ada", 1200, silent_after_s=300)
            | {_OFFSET: f"{then((0, 285))} {then((86400, 15))} _x60"},
            {300: (ADA,), 1100: (ADA,)},
        ),
        Case(
            Kind.HOSTILE,
            "a clock that is 100 s behind, and known to be, is not silence",
            monitor(900)
            | instance("ada", 900)
            | {
                _HEARTBEAT: growing(15, 900, begin=-100),
                _OFFSET: steady(100, 900),
            },
            {120: (), 400: (), 900: ()},
        ),
        Case(
            Kind.HOSTILE,
            "a clock that is an hour ahead, and known to be, is not silence: the ingest counts its samples as of now",
            monitor(900)
            | instance("ada", 900, silent_after_s=600)
            | {
                _HEARTBEAT: growing(15, 600, begin=3600),
                _OFFSET: steady(-3600, 600),
            },
            {120: (), 690: (), 695: (ADA,)},
        ),
        Case(
            Kind.HOSTILE,
            "what a machine writes as its heartbeat, or as the platform's word of one, is looked at by nobody",
            monitor(900)
            | instance("ada", 900, silent_after_s=300)
            | {
                f'{metric}{{instance_id="ada", cell="cell-1", machine="m-ada"}}': growing(15, 900)
                for metric in ("hermes_metrics_timestamp_seconds", f"{PREFIX}timestamp_seconds")
            },
            {390: (), 395: (ADA,), 800: (ADA,)},
        ),
        Case(
            Kind.HOSTILE,
            "an offset that is NaN does not hide a heartbeat",
            world(900) | {_OFFSET: steady("NaN", 900)},
            {400: (), 900: ()},
        ),
        Case(
            Kind.HOSTILE,
            "a machine that is fenced does not speak for its instance; its replacement does",
            monitor(900)
            | instance("ada", 900)
            | {_FENCED: steady(1, 900)}
            | {
                'hermes_platform_heartbeat_timestamp_seconds{instance_id="ada", machine="m-2", origin="platform"}': (
                    f"_x20 {growing(15, 600, begin=300)}"
                )
            },
            {95: (ADA,), 295: (ADA,), 590: (ADA,), 620: (), 900: ()},
        ),
        Case(
            Kind.HOSTILE,
            "one that two cells list while it moves is still judged, once",
            monitor(900)
            | instance("ada", 900, silent_after_s=300)
            | {'hermesops_instance_expected{instance_id="ada", cell="cell-1", source="other"}': steady(1, 900)},
            {395: (ADA,)},
        ),
        Case(
            Kind.HOSTILE,
            "without a monitor, what it expected last is still expected",
            monitor(300)
            | {'hermesops_instance_expected{instance_id="ada", cell="cell-1"}': steady(1, 300)}
            | {key: value for key, value in instance("ada", 600).items() if "expected" not in key},
            {600: (), 685: (), 695: (ADA,), 1000: (ADA,)},
        ),
    ),
    "CellLost": (
        Case(
            Kind.FIRES,
            "both of a cell are silent from 300 s on, the other cells are well",
            _cells("cell-1", 900, **{"cell-1": 2, "cell-2": 4, "cell-3": 4}),
            {360: (), 385: (LOST,)},
        ),
        Case(
            Kind.FIRES,
            "one of the two is heard again at 600 s: what is left belongs to the loss, for half an hour after it",
            _cells("cell-1", 3600, **{"cell-1": 2, "cell-2": 4})
            | {of(f"{PREFIX}timestamp_seconds", "cell-1-0"): f"{growing(15, 300)} _x19 {growing(15, 3000, begin=600)}"},
            {385: (LOST,), 900: (LOST,), 2300: (LOST,), 2700: (LOST,), 2800: ()},
        ),
        Case(
            Kind.BELOW,
            "both are silent for a moment, and then one of them: that is a machine",
            _cells("cell-1", 900, **{"cell-1": 2, "cell-2": 4})
            | {of(f"{PREFIX}timestamp_seconds", "cell-1-0"): f"{growing(15, 300)} _x4 {growing(15, 525, begin=375)}"},
            {370: (), 385: (), 900: ()},
        ),
        Case(
            Kind.BELOW,
            "one alone in its cell is a machine",
            _cells("cell-1", 900, **{"cell-1": 1, "cell-2": 4}),
            {400: (), 900: ()},
        ),
        Case(
            Kind.BELOW,
            "four of five are less than 90 %",
            _cells("", 900, **{"cell-1": 5, "cell-2": 5})
            | _silent([f"cell-1-{number}" for number in range(4)], "cell-1", 900, 300),
            {400: (), 900: ()},
        ),
    ),
    "FleetGap": (
        Case(
            Kind.FIRES,
            "a third of two cells, before the first has missed three heartbeats",
            _cells("cell-1,cell-2", 900, **{"cell-1": 2, "cell-2": 2, "cell-3": 8}),
            {360: (), 385: ({},)},
        ),
        Case(
            Kind.FIRES,
            "all of the only cell",
            _cells("cell-1", 900, **{"cell-1": 3}),
            {360: (), 385: ({},)},
        ),
        Case(
            Kind.FIRES,
            "it is told for longer than those of the machines, five minutes after the machines are heard again",
            monitor(1500)
            | {
                key: f"{growing(15, 300)} _x19 {growing(15, 900, begin=600)}" if "timestamp" in key else value
                for name in ("ada", "bob", "cy")
                for key, value in instance(name, 1500).items()
            },
            {385: ({},), 900: ({},), 945: ({},), 990: ()},
        ),
        Case(
            Kind.FIRES,
            "nothing arrives any more, neither from machines nor from the monitor",
            {
                key: f"{value} _x60" if "expected" in key or "pass" in key else value
                for key, value in (_cells("cell-1,cell-2", 300, **{"cell-1": 3, "cell-2": 3})).items()
            },
            {360: (), 385: ({},), 900: ({},), 1200: ({},)},
        ),
        Case(
            Kind.BELOW,
            "one cell of several is the cell",
            _cells("cell-1", 900, **{"cell-1": 4, "cell-2": 4}),
            {400: (), 900: ()},
        ),
        Case(
            Kind.BELOW,
            "two machines are two machines",
            _cells("cell-1,cell-2", 900, **{"cell-1": 1, "cell-2": 1, "cell-3": 1}),
            {400: (), 900: ()},
        ),
        Case(
            Kind.BELOW,
            "less than 30 % of the fleet",
            _cells("cell-1,cell-2", 900, **{"cell-1": 2, "cell-2": 2, "cell-3": 10}),
            {400: (), 900: ()},
        ),
    ),
}

_AGENT = of("hermes_agent_up")
_SENDER_REFUSED = of("hermes_platform_ingest_sender_refused_total", origin="platform")
_DOWN = f"{then((1, 300))} {then((0, 300))} {then((1, 600))}"

GATEWAY: dict[str, tuple[Case, ...]] = {
    "GatewayDown": (
        Case(
            Kind.FIRES,
            "the agent does not answer from 300 s to 600 s",
            world(1200) | {_AGENT: _DOWN},
            {355: (), 365: (ADA,), 600: (ADA,), 895: (ADA,), 910: ()},
            scope="instance",
        ),
        Case(
            Kind.BELOW,
            "hermes-node starts it again within 45 s",
            world(900) | {_AGENT: f"{then((1, 300))} {then((0, 45))} {then((1, 555))}"},
            {340: (), 355: (), 365: (), 900: ()},
            scope="instance",
        ),
        Case(
            Kind.BUSY,
            "an operation holds it",
            world(1200) | {_AGENT: _DOWN} | busy("ada", 1200),
            {400: (), 600: ()},
            scope="instance",
        ),
        Case(
            Kind.BELOW,
            "a loop that the guard stopped for good is that loop alone",
            world(1800)
            | {
                of("hermes_gateway_restarts_total"): then(
                    (0, 300), *((minute, 15) for minute in range(1, 6)), (5, 1425)
                ),
                _AGENT: then((1, 300), (0, 1500)),
            },
            {370: (), 400: (), 900: (), 1800: ()},
            scope="instance",
        ),
        Case(
            Kind.HOSTILE,
            "NaN is not up",
            world(900) | {_AGENT: f"{then((1, 300))} {then(('NaN', 600))}"},
            {365: (ADA,), 800: (ADA,)},
            scope="instance",
        ),
        Case(
            Kind.HOSTILE,
            "a figure that is missing is not up, though the machine reports",
            world(1200) | {_AGENT: then((1, 300))},
            {580: (), 660: (ADA,), 1200: (ADA,)},
            scope="instance",
        ),
        Case(
            Kind.BELOW,
            "a figure that is missing as hermes-node cannot read it is MetricsIncomplete",
            world(1200)
            | {_AGENT: then((1, 300)), of("hermes_metrics_errors_total"): f"{then((0, 300))} {growing(1, 900)}"},
            {580: (), 660: (), 1200: ()},
            scope="instance",
        ),
        Case(
            Kind.HOSTILE,
            "NaN after 0 does not end it",
            world(900) | {_AGENT: f"{then((1, 300))} {then((0, 90))} {then(('NaN', 510))}"},
            {365: (ADA,), 800: (ADA,)},
            scope="instance",
        ),
    ),
    "GatewayDown fleet": _fleet({of("hermes_agent_up", "NAME"): steady(0, 600)}, fires_at=120, seconds=600),
    "GatewayLooping": (
        Case(
            Kind.FIRES,
            "it is started again every minute, and answers in between",
            world(900)
            | {
                of("hermes_gateway_restarts_total"): then((0, 300), *((number, 60) for number in range(1, 11))),
            },
            {300: (), 470: (), 545: (ADA,), 900: (ADA,)},
        ),
        Case(
            Kind.FIRES,
            "the loop guard stops it for good: that is still the same alert, and no second one",
            world(3600)
            | {
                of("hermes_gateway_restarts_total"): then(
                    (0, 300), *((number, 15) for number in range(1, 6)), (5, 3225)
                ),
                _AGENT: then((1, 300), (0, 3300)),
            },
            {340: (), 350: (ADA,), 1200: (ADA,), 1800: (ADA,)},
        ),
        Case(
            Kind.BELOW,
            "three restarts in ten minutes",
            world(1200) | {of("hermes_gateway_restarts_total"): then((0, 300), (1, 100), (2, 100), (3, 700))},
            {520: (), 700: (), 1200: ()},
        ),
        Case(
            Kind.BUSY,
            "an operation holds it",
            world(900)
            | {of("hermes_gateway_restarts_total"): then((0, 300), *((number, 60) for number in range(1, 11)))}
            | busy("ada", 900),
            {600: (), 900: ()},
        ),
        Case(
            Kind.HOSTILE,
            "a counter that begins again, as after a reboot, is no restart of its height",
            world(900) | {of("hermes_gateway_restarts_total"): then((100, 300), (0, 300), (1, 300))},
            {400: (), 700: (), 900: ()},
        ),
    ),
    "JobsLate": (
        *_simple(
            world(1200),
            {of("hermes_queue_age_seconds"): then((60, 300), (901, 900))},
            {of("hermes_queue_age_seconds"): then((60, 300), (900, 900))},
            615,
            ADA,
            seconds=1200,
            before=585,
        ),
        Case(
            Kind.BELOW,
            "jobs that are begun within the time, again and again",
            world(1800) | {of("hermes_queue_age_seconds"): then(*((899, 120), (0, 30)) * 12)},
            {900: (), 1800: ()},
        ),
    ),
    "JobsFailing": (
        *_simple(
            world(1500),
            _ended(1500, "ada", failed=2, ok=1),
            _ended(1500, "ada", failed=2, ok=2),
            915,
            ADA,
            seconds=1500,
            before=885,
            scope="instance",
        ),
        Case(
            Kind.HOSTILE,
            "NaN and other outcomes are nothing",
            world(1500)
            | _ended(1500, "ada", failed="NaN", ok=0)
            | {of("hermes_jobs_ended", outcome="fail"): steady(9, 1500)},
            {915: (), 1485: ()},
            scope="instance",
        ),
    ),
    "JobsFailing fleet": (
        *(
            Case(
                kind,
                about,
                world(1500, *failing, *working, *(f"idle-{number}" for number in range(20)))
                | {key: value for name in failing for key, value in _ended(1500, name, failed=9, ok=0).items()}
                | {key: value for name in working for key, value in _ended(1500, name, failed=1, ok=1).items()},
                {885: (), 960: fires, 1485: fires},
                scope="fleet",
            )
            for kind, about, failing, working, fires in (
                (Kind.FIRES, "three of twelve that have jobs", ("ada", "bob", "cy"), _well(9), ({},)),
                (Kind.BELOW, "two", ("ada", "bob"), (), ()),
                (Kind.BELOW, "three of sixteen", ("ada", "bob", "cy"), _well(13), ()),
            )
        ),
    ),
    "MessengerDisconnected": (
        *_simple(
            world(1200),
            {of("hermes_messenger_connected", messenger="telegram"): then((1, 300), (0, 900))},
            {of("hermes_messenger_connected", messenger="telegram"): then((1, 300), (0, 270), (1, 630))},
            610,
            {**ADA, "messenger": "telegram"},
            seconds=1200,
            before=590,
        ),
        Case(
            Kind.HOSTILE,
            "NaN is not connected; a messenger that we do not have is nobody's",
            world(900)
            | {of("hermes_messenger_connected", messenger="telegram"): then((1, 300), ("NaN", 600))}
            | {of("hermes_messenger_connected", messenger="<!channel>"): steady(0, 900)},
            {610: ({**ADA, "messenger": "telegram"},)},
            scope="instance",
        ),
    ),
    "AgentsWithoutSocket": (
        *_simple(
            world(1200),
            {_SOCKET.replace("NAME", "ada"): then((1, 300), (0, 900))},
            {_SOCKET.replace("NAME", "ada"): then((1, 300), (0, 270), (1, 630))},
            610,
            ADA,
            seconds=1200,
            before=590,
        ),
        Case(
            Kind.BELOW,
            "one that should have none, and one whose monitor is gone: that is MonitorDown",
            world(1800, "ada", "bob") | {_SOCKET.replace("NAME", "bob"): then((1, 300), (0, 60))},
            {610: (), 1800: ()},
            scope="instance",
        ),
        Case(
            Kind.HOSTILE,
            "NaN is no socket",
            world(900) | {_SOCKET.replace("NAME", "ada"): then((1, 300), ("NaN", 600))},
            {610: (ADA,)},
            scope="instance",
        ),
    ),
    "AgentsWithoutSocket fleet": (
        Case(
            Kind.FIRES,
            "three of five that should have one, among twenty that need none",
            world(900, "ada", "bob", "cy", "dan", "eve", *(f"other-{number}" for number in range(20)))
            | {_SOCKET.replace("NAME", name): steady(0, 900) for name in ("ada", "bob", "cy")}
            | {_SOCKET.replace("NAME", name): steady(1, 900) for name in ("dan", "eve")},
            {290: (), 340: ({},)},
            scope="fleet",
        ),
        Case(
            Kind.BELOW,
            "two have none",
            world(900, "ada", "bob") | {_SOCKET.replace("NAME", name): steady(0, 900) for name in ("ada", "bob")},
            {340: (), 900: ()},
            scope="fleet",
        ),
        Case(
            Kind.BELOW,
            "three of sixteen",
            world(900, "ada", "bob", "cy", *(f"other-{number}" for number in range(13)))
            | {_SOCKET.replace("NAME", name): steady(0, 900) for name in ("ada", "bob", "cy")}
            | {_SOCKET.replace("NAME", f"other-{number}"): steady(1, 900) for number in range(13)},
            {340: (), 900: ()},
            scope="fleet",
        ),
        Case(
            Kind.BELOW,
            "machines that are silent have alerts of their own",
            {
                key: series
                for name in ("ada", "bob", "cy")
                for key, series in (
                    instance(name, 1200, silent_after_s=300) | {_SOCKET.replace("NAME", name): then((1, 300), (0, 900))}
                ).items()
            }
            | monitor(1200),
            {700: (), 1200: ()},
            scope="fleet",
        ),
    ),
    "MessengerDisconnected fleet": _fleet(
        {of("hermes_messenger_connected", "NAME", messenger="telegram"): steady(0, 900)}, fires_at=340, seconds=900
    ),
}


def _model(status: str, enough: int) -> tuple[tuple[Case, ...], tuple[Case, ...]]:
    """Of one instance, and of many: so many failed answers within five minutes, and one less."""
    errors = of("hermes_model_errors_total", status=status)

    def rising(to: int) -> str:
        return then((0, 300), *((number, 15) for number in range(1, to)), (to, 900))

    fires_at = 300 + 15 * (enough + 1)
    single = _simple(
        world(1200),
        {errors: rising(enough)},
        {errors: rising(enough - 2)} if enough > 2 else {errors: steady(3, 1200)},
        fires_at,
        ADA,
        seconds=1200,
        before=295,
    )
    hostile = Case(
        Kind.HOSTILE,
        "other answers do not count, nor does a counter that begins again",
        world(900)
        | {of("hermes_model_errors_total", status="other"): rising(30)}
        | {errors: then((50, 300), (0, 600))},
        {400: (), 900: ()},
        scope="instance",
    )
    many = _fleet(
        {of("hermes_model_errors_total", "NAME", status=status): rising(enough)}, fires_at=fires_at + 15, seconds=1200
    )
    return (*single, hostile), many


MODEL: dict[str, tuple[Case, ...]] = {}
for _alert, _status, _enough in (
    ("ModelUnauthorized", "401", 2),
    ("ModelRateLimited", "429", 5),
    ("ModelFailing", "5xx", 3),
):
    MODEL[_alert], MODEL[f"{_alert} fleet"] = _model(_status, _enough)


def _unread() -> tuple[Case, ...]:
    """From 300 s on hermes-node cannot read what the agent answers."""
    base = world(1200) | {of("hermes_agent_up"): then((1, 300))}
    bad = base | {of("hermes_metrics_errors_total"): f"{then((0, 300))} {growing(1, 900)}"}
    return (
        Case(
            Kind.FIRES,
            "it may be down, and nobody knows",
            bad,
            {630: (), 690: (ADA,)},
            scope="instance",
            severity="page",
        ),
        Case(Kind.BELOW, "nothing is unread", base, {690: (), 900: ()}, scope="instance", severity="page"),
        Case(
            Kind.BUSY,
            "an operation holds it",
            bad | busy("ada", 1200),
            {690: (), 900: ()},
            scope="instance",
            severity="page",
        ),
    )


def _disk(used: str) -> Series:
    return {of("hermes_data_bytes", state="used"): used, of("hermes_data_bytes", state="size"): "1000x2000"}


_UNIT = 'node_systemd_unit_state{instance_id="ada", machine="m-ada", name="loki.service", state="STATE"}'


def _failed(unit: str) -> str:
    return f'node_systemd_unit_state{{instance_id="ada", machine="m-ada", name="{unit}", state="failed"}}'


MACHINE: dict[str, tuple[Case, ...]] = {
    "DiskFilling page": (
        *_simple(
            world(900),
            _disk(then((500, 300), (960, 600))),
            _disk(then((500, 300), (940, 600))),
            365,
            {**ADA, "volume": "data"},
            seconds=900,
            before=355,
            severity="page",
        ),
        Case(
            Kind.FIRES,
            "emptied, it stands for GatewayDown until that has ended",
            world(1500) | _disk(then((500, 300), (960, 300), (500, 900))),
            {365: ({**ADA, "volume": "data"},), 930: ({**ADA, "volume": "data"},), 990: ()},
            severity="page",
        ),
        Case(
            Kind.FIRES,
            "the root disk as well, whatever else is mounted",
            world(900)
            | {
                of("node_filesystem_avail_bytes", mountpoint="/"): then((500, 300), (30, 600)),
                of("node_filesystem_size_bytes", mountpoint="/"): steady(1000, 900),
                of("node_filesystem_avail_bytes", mountpoint="/boot"): steady(0, 900),
                of("node_filesystem_size_bytes", mountpoint="/boot"): steady(1000, 900),
            },
            {365: ({**ADA, "volume": "root"},)},
            severity="page",
        ),
        Case(
            Kind.HOSTILE,
            "a size of nothing, or one that is NaN, hides no other disk and breaks no rule",
            world(900, "ada", "bob")
            | _disk(steady(960, 900))
            | {of("hermes_data_bytes", "bob", state="used"): steady(960, 900)}
            | {of("hermes_data_bytes", "bob", state="size"): then((0, 450), ("NaN", 450))},
            {300: ({**ADA, "volume": "data"},), 900: ({**ADA, "volume": "data"},)},
            severity="page",
        ),
    ),
    "DiskFilling ticket": _simple(
        world(10800, every_s=60),
        _disk(growing(0.75, 10800, begin=700, every_s=60)),
        _disk(growing(0.2, 10800, begin=700, every_s=60)),
        1200,
        {**ADA, "volume": "data"},
        seconds=10800,
        before=600,
        severity="ticket",
        every_s=60,
        evaluated_s=60,
    ),
    "MemoryNearCap": _simple(
        world(900) | {of("hermes_gateway_memory_max_bytes"): steady(1000, 900)},
        {of("hermes_gateway_memory_bytes"): then((500, 300), (910, 600))},
        {of("hermes_gateway_memory_bytes"): then((500, 300), (900, 600))},
        605,
        ADA,
        seconds=900,
        before=595,
    ),
    "UnitFailed": (
        *_simple(
            world(900),
            {_UNIT.replace("STATE", "failed"): then((0, 300), (1, 600))},
            {
                _UNIT.replace("STATE", "failed"): then((0, 300), (1, 45), (0, 555)),
                _UNIT.replace("STATE", "active"): steady(1, 900),
            },
            365,
            {**ADA, "name": "loki.service"},
            seconds=900,
            before=355,
        ),
        Case(
            Kind.BELOW,
            "the platform refuses the machine: what asks for orders fails, and a minute later figures are refused",
            monitor(1200)
            | instance("ada", 1200, silent_after_s=375)
            | {_failed("hermes-orders.service"): then((0, 315), (1, 60))},
            dict.fromkeys(range(300, 1200, 15), ()),
        ),
        Case(
            Kind.FIRES,
            "a unit that heartbeats need, on a machine that goes on to be heard",
            world(1200) | {_failed("hermes-orders.service"): then((0, 300), (1, 900))},
            {450: (), 585: (), 615: ({**ADA, "name": "hermes-orders.service"},)},
        ),
    ),
    "ClockOff": (
        *_simple(
            world(900),
            {_OFFSET: then((0, 300), (-11, 600))},
            {_OFFSET: then((0, 300), (10, 600))},
            425,
            ADA,
            seconds=900,
            before=415,
        ),
        Case(
            Kind.FIRES,
            "a clock that is behind",
            world(900) | {_OFFSET: then((0, 300), (70, 600))},
            {425: (ADA,)},
        ),
    ),
    "MetricsIncomplete": (
        *_simple(
            world(1800),
            {of("hermes_metrics_errors_total"): growing(1, 1800)},
            {of("hermes_metrics_errors_total"): then((0, 300), (1, 15), (1, 1485))},
            900,
            ADA,
            seconds=1800,
            before=600,
            evaluated_s=15,
            severity="ticket",
        ),
        Case(
            Kind.FIRES,
            "a figure that is no number: a comparison with it is never true",
            world(1800) | {of("hermes_gateway_memory_bytes"): then((1, 300), ("NaN", 1500))},
            {870: (), 930: (ADA,)},
            evaluated_s=15,
            severity="ticket",
        ),
        Case(
            Kind.FIRES,
            "the platform refuses what it sends beyond its limits",
            world(1800) | {_SENDER_REFUSED: growing(1, 1800)},
            {600: (), 1200: (ADA,)},
            evaluated_s=15,
            severity="ticket",
        ),
        Case(
            Kind.BELOW,
            "it is refused now and then, as after a pause",
            world(1800) | {_SENDER_REFUSED: growing(0.4, 1800)},
            {1200: (), 1800: ()},
            evaluated_s=15,
            severity="ticket",
        ),
        *_unread(),
    ),
}


def _ends(metric: str) -> tuple[Case, ...]:
    """A certificate or token that ends in two days."""
    return _simple(
        world(900),
        {of(metric): steady(172800 + 299, 900)},
        {of(metric): steady(172800 + 901, 900)},
        610,
        ADA,
        seconds=900,
        before=590,
    )


DATA: dict[str, tuple[Case, ...]] = {
    "DatabaseCorrupt": (
        *_simple(
            world(900),
            {of("hermes_database_integrity", database="state"): then((1, 300), (0, 600))},
            {of("hermes_database_integrity", database="state"): steady(1, 900)},
            305,
            {**ADA, "database": "state"},
            seconds=900,
            before=295,
        ),
        Case(
            Kind.FIRES,
            "mended, it stands for GatewayDown until that has ended",
            world(1500) | {of("hermes_database_integrity", database="state"): then((1, 300), (0, 300), (1, 900))},
            {305: ({**ADA, "database": "state"},), 930: ({**ADA, "database": "state"},), 990: ()},
        ),
        Case(
            Kind.HOSTILE,
            "NaN is not good",
            world(900) | {of("hermes_database_integrity", database="state"): then((1, 300), ("NaN", 600))},
            {305: ({**ADA, "database": "state"},), 800: ({**ADA, "database": "state"},)},
        ),
    ),
    "DatabaseMalformed": (
        *_simple(
            world(900),
            {of("hermes_database_malformed_total"): then((0, 300), (1, 600))},
            {of("hermes_database_malformed_total"): steady(1, 900)},
            305,
            ADA,
            seconds=900,
            before=295,
        ),
        Case(
            Kind.FIRES,
            "a line that came once stands until half an hour later",
            world(3000) | {of("hermes_database_malformed_total"): then((0, 300), (1, 2700))},
            {1800: (ADA,), 2790: ()},
        ),
        Case(
            Kind.FIRES,
            "a restore ends it within minutes, and another line after it counts",
            world(3000) | {of("hermes_database_malformed_total"): then((0, 300), (3, 300), (0, 1200), (1, 1200))},
            {590: (ADA,), 990: (), 1790: (), 1830: (ADA,)},
        ),
    ),
    "DatabaseGrowing": _simple(
        world(1800),
        {of("hermes_database_bytes", database="state"): then((100e6, 300), (201e6, 1500))},
        {
            of("hermes_database_bytes", database="state"): then((100e6, 300), (200e6, 1500)),
            of("hermes_database_bytes", database="small"): then((1e6, 300), (99e6, 1500)),
        },
        915,
        {**ADA, "database": "state"},
        seconds=1800,
        before=885,
        evaluated_s=15,
    ),
    "BackupOverdue": (
        *_simple(
            world(900),
            {'hermesops_instance_backup_age_seconds{instance_id="ada"}': growing(15, 900, begin=93500)},
            {'hermesops_instance_backup_age_seconds{instance_id="ada"}': steady(93600, 900)},
            420,
            ADA,
            seconds=900,
            before=400,
        ),
        Case(
            Kind.FIRES,
            "without the monitor's word the machine's own counts",
            world(900) | {of("hermes_last_backup_timestamp_seconds"): steady(-93600, 900)},
            {290: (), 310: (ADA,)},
            scope="instance",
        ),
    ),
    "BackupOverdue fleet": _fleet(
        {'hermesops_instance_backup_age_seconds{instance_id="NAME"}': steady(93601, 900)}, fires_at=330, seconds=900
    ),
    "RouterTokenExpiring": _ends("hermes_router_token_not_after_timestamp_seconds"),
    "CertificateExpiring": _ends("hermes_certificate_not_after_timestamp_seconds"),
}


def _restarting(up_s: int, down_s: int, seconds: int) -> str:
    return then(*((value, span) for _ in range(seconds // (up_s + down_s)) for value, span in ((1, up_s), (0, down_s))))


def _explained(fleet: int, gone: int) -> tuple[Case, ...]:
    """Of a fleet some agents stop, or their machines, for ten minutes: each has an alert of its own, and no other."""
    names = [f"user-{number}" for number in range(fleet)]
    every, silent_s = world(1500, *names), 600

    def of_those(values: str, *metrics: str) -> Series:
        return {of(metric, name): values for name in names[:gone] for metric in metrics}

    heard = f"{growing(15, 300)} _x{silent_s // EVERY_S - 1} {growing(15, 600, begin=900)}"
    gaps = f"{then((1, 300))} _x{silent_s // EVERY_S} {then((1, 600))}"
    never = dict.fromkeys(range(0, 1500, 30), ())
    return (
        Case(
            Kind.BELOW,
            f"{gone} of {fleet} agents stop for ten minutes: their own alerts explain it from its first second on",
            every | of_those(then((1, 300), (0, silent_s), (1, 600)), "hermes_agent_up"),
            never,
        ),
        Case(
            Kind.BELOW,
            f"{gone} of {fleet} machines are silent for ten minutes",
            every
            | of_those(heard, f"{PREFIX}timestamp_seconds")
            | of_those(gaps, "hermes_agent_up", "hermes_gateway_up"),
            never,
        ),
    )


def _expected(seconds: int) -> Series:
    return {'hermesops_instance_expected{instance_id="ada", cell="cell-1"}': steady(1, seconds)}


def _begins_at(begin_s: int, seconds: int) -> Series:
    """A machine that begins to report."""
    gap = f"_x{begin_s // EVERY_S}"
    return {
        _HEARTBEAT: f"{gap} {growing(15, seconds - begin_s, begin=begin_s)}",
        _AGENT: f"{gap} {steady(1, seconds - begin_s)}",
    }


def _turns(failed: str, answered: str, name: str = "ada") -> Series:
    return {
        of("hermes_turns_total", name, outcome="failed"): failed,
        of("hermes_turns_total", name, outcome="answered"): answered,
    }


_MENDED = f"{then((1, 300))} {_restarting(15, 45, 1200)} {then((1, 6000))}"
"""An agent that comes and goes for twenty minutes, too fast for an alert of its own."""

_MANY = tuple(f"user-{number}" for number in range(20))


def _awake(failed: str, until: int, answered: str, since: int = 0) -> Series:
    """Turns of some of twenty users."""
    return {key: text for name in _MANY[since:until] for key, text in _turns(failed, answered, name).items()}


def _with_turns(seconds: int, failing: int) -> Series:
    """Twenty users who talk to their agents; so many of them get no answer."""
    series = world(seconds, *_MANY)
    for number, name in enumerate(_MANY):
        bad, good = growing(1, seconds), steady(0, seconds)
        series |= _turns(bad, good, name) if number < failing else _turns(good, bad, name)
    return series


def _provisions(took: Sequence[float | str]) -> Series:
    return {
        f'hermesops_provision_seconds{{operation="op-{number}"}}': steady(value, 900)
        for number, value in enumerate(took)
    }


OBJECTIVES: dict[str, tuple[Case, ...]] = {
    "AgentReachabilityBurnFast": (
        Case(
            Kind.FIRES,
            "three of twenty come and go too fast for an alert of their own",
            world(1200, *_MANY) | {of("hermes_agent_up", name): _restarting(15, 45, 1200) for name in _MANY[:3]},
            {120: (), 600: (), 780: ({},), 1100: ({},)},
        ),
        Case(
            Kind.FIRES,
            "the only agent of a fleet does",
            world(1200) | {_AGENT: _restarting(15, 45, 1200)},
            {300: (), 780: ({},), 1100: ({},)},
        ),
        Case(
            Kind.BELOW,
            "one of twenty does: 5 % at most, where 7.2 % are needed",
            world(1200, *_MANY) | {of("hermes_agent_up", "user-1"): _restarting(15, 45, 1200)},
            {780: (), 1100: ()},
        ),
        Case(
            Kind.HOSTILE,
            "one of ten comes and goes as it likes: no page for the fleet",
            world(1200, *_MANY[:10]) | {of("hermes_agent_up", "user-1"): _restarting(15, 60, 1200)},
            dict.fromkeys(range(0, 1200, 60), ()),
        ),
        Case(
            Kind.FIRES,
            "twenty minutes, and mended: one page",
            world(4800) | {_AGENT: _MENDED},
            {1500: ({},), 1800: ({},), **dict.fromkeys(range(2130, 4800, 60), ())},
        ),
        *_explained(1, 1),
        *_explained(14, 1),
        *_explained(14, 4),
        _explained(200, 20)[0],
        Case(
            Kind.BELOW,
            "a gateway that loops is that loop alone, also while it begins",
            world(1800)
            | {
                of("hermes_gateway_restarts_total"): then(
                    (0, 300), *((count, 60) for count in range(1, 13)), (13, 780)
                ),
                _AGENT: f"{then((1, 300))} {_restarting(30, 30, 720)} {then((1, 780))}",
            },
            dict.fromkeys(range(0, 1800, 30), ()),
        ),
        Case(
            Kind.BELOW,
            "one that the monitor has just begun to expect has its time to be heard",
            monitor(1200) | {**_expected(1200), **_begins_at(60, 1200)},
            dict.fromkeys(range(0, 1200, 30), ()),
        ),
        Case(
            Kind.BUSY,
            "operations hold them",
            world(1200, *_MANY)
            | {of("hermes_agent_up", name): _restarting(15, 45, 1200) for name in _MANY[:3]}
            | busy("user-0", 1200)
            | busy("user-1", 1200)
            | busy("user-2", 1200),
            {780: (), 1100: ()},
        ),
        Case(
            Kind.HOSTILE,
            "a NaN of one does not hide the others",
            world(1200, *_MANY)
            | {of("hermes_agent_up", name): _restarting(15, 45, 1200) for name in _MANY[:3]}
            | {of("hermes_agent_up", "user-3"): steady("NaN", 1200)},
            {780: ({},)},
        ),
    ),
    "AgentReachabilityBurnSlow": (
        Case(
            Kind.FIRES,
            "one of twenty comes and goes: 3.75 % of the time of all",
            world(1800, *_MANY) | {of("hermes_agent_up", "user-1"): _restarting(15, 45, 1800)},
            {1500: (), 1700: ({},), 1800: ({},)},
        ),
        Case(
            Kind.BELOW,
            "twenty minutes of which a page told, and mended: no ticket after it",
            world(4800) | {_AGENT: _MENDED},
            dict.fromkeys(range(0, 4800, 30), ()),
        ),
        Case(
            Kind.FIRES,
            "a page told of three of twenty, of which one is not mended: a ticket after it",
            world(4800, *_MANY)
            | {of("hermes_agent_up", name): _MENDED for name in _MANY[:2]}
            | {of("hermes_agent_up", "user-2"): _restarting(15, 45, 4800)},
            {1800: (), 2400: (), 3600: ({},), 4800: ({},)},
            evaluated_s=15,
        ),
        Case(
            Kind.FIRES,
            "mended after a page, and half an hour later it begins again, slowly",
            world(7200, *_MANY)
            | {of("hermes_agent_up", name): _MENDED for name in _MANY[:3]}
            | {of("hermes_agent_up", "user-3"): then((1, 3600)) + " " + _restarting(15, 45, 3600)},
            {3600: (), 7200: ({},)},
            evaluated_s=15,
        ),
        Case(
            Kind.BELOW,
            "2.5 %",
            world(1800, *_MANY) | {of("hermes_agent_up", "user-1"): _restarting(30, 30, 1800)},
            {1700: (), 1800: ()},
        ),
        Case(
            Kind.BUSY,
            "an operation holds it",
            world(1800, *_MANY) | {of("hermes_agent_up", "user-1"): _restarting(15, 45, 1800)} | busy("user-1", 1800),
            {1700: (), 1800: ()},
        ),
    ),
    "TurnsFailingBurnFast": (
        Case(
            Kind.FIRES,
            "three of twenty users get no answer",
            _with_turns(1200, 3),
            {120: (), 600: ({},), 1100: ({},)},
        ),
        Case(Kind.BELOW, "two of twenty do not", _with_turns(1200, 2), {600: (), 1100: ()}),
        Case(
            Kind.HOSTILE,
            "two of ten write what they like: no page for the fleet",
            world(1200, *_MANY[:10]) | _awake(growing(9, 1200), 2, steady(0, 1200)) | _awake("0x80", 10, "0+1x80", 2),
            dict.fromkeys(range(0, 1200, 60), ()),
        ),
        Case(
            Kind.BELOW,
            "of five of twenty who are awake at night three get an answer half of the time",
            world(1200, *_MANY) | _awake("0+1x80", 3, "0+1x80") | _awake("0x80", 5, "0+1x80", 3),
            dict.fromkeys(range(0, 1200, 60), ()),
        ),
        Case(
            Kind.FIRES,
            "nobody of three who are awake at night gets an answer",
            world(1200, *_MANY) | _awake(growing(1, 1200), 3, steady(0, 1200)),
            {120: (), 1100: ({},)},
        ),
        Case(
            Kind.BELOW,
            "the only turns of a quiet night fail",
            world(1200, *_MANY) | _turns(then((0, 300), (1, 300), (3, 600)), steady(0, 1200)),
            {600: (), 700: (), 1100: ()},
        ),
        Case(
            Kind.BELOW,
            "the model's own alerts explain it",
            _with_turns(1200, 3)
            | {of("hermes_model_errors_total", name, status="5xx"): growing(1, 1200) for name in _MANY[:3]},
            {600: (), 1100: ()},
        ),
        Case(
            Kind.BUSY,
            "operations hold them",
            _with_turns(1200, 3) | busy("user-0", 1200) | busy("user-1", 1200) | busy("user-2", 1200),
            {600: (), 1100: ()},
        ),
        Case(
            Kind.HOSTILE,
            "counters that are NaN, infinite or begin again do not hide the others",
            _with_turns(1200, 5)
            | _turns(steady("NaN", 1200), growing(1, 1200), "user-9")
            | _turns(growing(1, 1200), then((1e9, 450), (0, 450), (1e9, 300)), "user-10")
            | _turns(steady(0, 1200), then((0, 300), ("+Inf", 900)), "user-11"),
            {600: ({},), 1100: ({},)},
        ),
        Case(
            Kind.HOSTILE,
            "no machine outweighs the others, whatever it counts",
            _with_turns(1200, 1) | _turns(growing(1e9, 1200), steady(0, 1200), "user-0"),
            {600: (), 1100: ()},
        ),
    ),
    "TurnsFailingBurnSlow": (
        Case(
            Kind.FIRES,
            "two of twenty users get no answer",
            _with_turns(1500, 2),
            {600: (), 1300: ({},), 1400: ({},)},
        ),
        Case(Kind.BELOW, "one of twenty does not", _with_turns(1500, 1), {1300: (), 1400: ()}),
        Case(
            Kind.BELOW,
            "two turns of one of two, and many after them that the model's own alert explains",
            world(2700, *_MANY[:2])
            | {
                key: value
                for name in _MANY[:2]
                for key, value in _turns(steady(0, 2700), growing(1, 2700), name).items()
            }
            | _turns(
                then((0, 120), (1, 330), (2, 850), *((count, 15) for count in range(3, 8)), (8, 1325)),
                steady(0, 2700),
                "user-0",
            )
            | {of("hermes_model_errors_total", "user-0", status="401"): then((0, 1290), (8, 1410))},
            dict.fromkeys(range(0, 2700, 60), ()),
        ),
        Case(
            Kind.BELOW,
            "five of twenty for twenty minutes, of which a page told, and mended: no ticket after it",
            _with_turns(4800, 0)
            | {
                key: value
                for name in _MANY[:5]
                for key, value in _turns(
                    f"{growing(1, 1200)} {then((79, 3600))}", f"{then((0, 1200))} {growing(1, 3600)}", name
                ).items()
            },
            dict.fromkeys(range(0, 4800, 60), ()),
            evaluated_s=15,
        ),
        Case(
            Kind.BUSY,
            "operations hold them",
            _with_turns(1500, 2) | busy("user-0", 1500) | busy("user-1", 1500),
            {1300: (), 1400: ()},
        ),
    ),
    "ProvisionSlow": (
        Case(
            Kind.FIRES,
            "two of twelve took over five minutes",
            world(900) | _provisions([301, 400, *[60] * 10]),
            {290: (), 310: ({},)},
        ),
        Case(
            Kind.BELOW,
            "two of twenty are the 10 % that the objective allows; 300 s are not slow",
            world(900) | _provisions([301, 400, 300, *[60] * 17]),
            {310: (), 900: ()},
        ),
        Case(Kind.BELOW, "one is none", world(900) | _provisions([4000, 60]), {310: (), 900: ()}),
        Case(
            Kind.HOSTILE,
            "NaN is left out, not fast",
            world(900) | _provisions([301, 400, *[60] * 10, *["NaN"] * 20]),
            {310: ({},)},
        ),
    ),
}

_BREAK_GLASS: Labels = {"instance_id": "ada"}


def _up(service: str, process: str = "") -> str:
    """Whether Prometheus reaches a service beside it, or one of its processes."""
    of = f', process="{process}"' if process else ""
    return f'up{{job="platform", origin="platform", service="{service}"{of}}}'


_DATABASE = 'hermes_platform_postgresql_{}{{job="host", origin="platform", service="host-exporter"}}'
_BACKUP = _DATABASE.format("backup_timestamp_seconds").replace("}", ', type="TYPE"}')
_WRITTEN = (
    'node_textfile_mtime_seconds{job="host", origin="platform", file="/var/lib/hermes-platform/metrics/FILE.prom"}'
)


def _way(name: str) -> str:
    """The monitor's series of a way to machines."""
    return f'hermesops_monitor_source_up{{service="{name}"}}'


PLATFORM: dict[str, tuple[Case, ...]] = {
    "Watchdog": (
        Case(Kind.FIRES, "always", {}, {0: ({},), 600: ({},)}),
        Case(Kind.FIRES, "whatever else is going on", world(600), {600: ({},)}),
    ),
    "MonitorDown": (
        Case(Kind.FIRES, "its last pass is of 300 s", monitor(300), {440: (), 455: ({},), 900: ({},)}),
        Case(
            Kind.BELOW,
            "two passes late",
            {"hermesops_monitor_pass_seconds": f"{then((1, 315))} _x8 {then((1, 465))}"},
            {430: (), 445: (), 470: (), 900: ()},
        ),
        Case(Kind.FIRES, "no monitor ever was", {"up": steady(1, 300)}, {25: (), 35: ({},)}),
    ),
    "PlatformServiceDown page": (
        Case(
            Kind.FIRES,
            "the ingest does not answer from 300 s to 600 s; it is told until what it stands for is over, too",
            {_up("ingest"): then((1, 300), (0, 300), (1, 900)), _up("prometheus"): steady(1, 1500)},
            {325: (), 335: ({"service": "ingest"},), 1310: ({"service": "ingest"},), 1330: ()},
            severity="page",
        ),
        Case(
            Kind.FIRES,
            "nginx does not answer",
            {
                _up("ingest"): steady(1, 900),
                'hermes_platform_nginx_up{job="platform", origin="platform", service="ingest"}': then(
                    (1, 300), (0, 600)
                ),
            },
            {325: (), 335: ({"service": "nginx"},)},
            severity="page",
        ),
        Case(
            Kind.FIRES,
            "both processes of the API, one after the other, that of connections, connector and console do not answer",
            {
                _up("edge"): steady(1, 900),
                _up("api", process="1"): then((1, 300), (0, 600)),
                _up("api", process="2"): then((1, 400), (0, 500)),
                _up("connections"): then((1, 300), (0, 600)),
                _up("connector"): then((1, 300), (0, 600)),
                _up("console"): then((1, 300), (0, 600)),
            },
            {
                325: (),
                335: ({"service": "connections"}, {"service": "connector"}, {"service": "console"}),
                450: ({"service": "api"}, {"service": "connections"}, {"service": "connector"}, {"service": "console"}),
            },
            severity="page",
        ),
        Case(
            Kind.FIRES,
            "the door does not answer: by it the processes behind are asked, and of them nobody knows anything",
            {
                _up("edge"): then((1, 300), (0, 600)),
                _up("api", process="1"): then((1, 300), (0, 600)),
                _up("connections"): then((1, 300), (0, 600)),
                _up("connector"): then((1, 300), (0, 600)),
                _up("console"): then((1, 300), (0, 600)),
            },
            {325: (), 335: ({"service": "edge"},), 900: ({"service": "edge"},)},
            severity="page",
        ),
        Case(
            Kind.BELOW,
            "one process of the API does not answer, and the other one does; the door comes after both",
            {
                _up("edge"): then(("_", 300), (1, 600)),
                _up("api", process="1"): then((0, 900)),
                _up("api", process="2"): then((0, 300), (1, 600)),
                _up("connections"): then((0, 300), (1, 600)),
            },
            dict.fromkeys((200, 335, 900), ()),
            severity="page",
        ),
        Case(
            Kind.FIRES,
            "the exporter of the host does not answer: of disk and database nobody knows anything",
            {'up{job="host", origin="platform", service="host-exporter"}': then((1, 300), (0, 600))},
            {325: (), 335: ({"service": "host-exporter"},)},
            severity="page",
        ),
        Case(
            Kind.FIRES,
            "the database does not answer, as its role writes every 30 s",
            {_DATABASE.format("up"): then((1, 300), (0, 600))},
            {355: (), 365: ({"service": "postgresql"},)},
            severity="page",
        ),
        Case(
            Kind.BELOW,
            "the database restarts while it is asked once, and once more an hour later",
            {_DATABASE.format("up"): then((1, 300), (0, 30), (1, 300), (0, 30), (1, 240))},
            dict.fromkeys(range(300, 900, 5), ()),
            severity="page",
        ),
        Case(
            Kind.BELOW,
            "it restarts, and misses one question",
            {_up("ingest"): then((1, 300), (0, 15), (1, 585))},
            dict.fromkeys((305, 320, 335, 350, 900), ()),
            severity="page",
        ),
        Case(
            Kind.HOSTILE,
            "whoever writes such a series is not the platform, least of all a machine without a user",
            world(900)
            | anybodys("up", steady(0, 900), job="platform", service="ingest")
            | anybodys("up", steady(0, 900), job="host", service="nginx")
            | anybodys("hermes_platform_nginx_up", steady(0, 900), job="platform")
            | anybodys("hermes_platform_postgresql_up", steady(0, 900), job="host"),
            {600: (), 900: ()},
            severity="page",
        ),
    ),
    "PlatformServiceDown ticket": (
        Case(
            Kind.FIRES,
            "Loki does not answer",
            {_up("loki"): then((1, 300), (0, 600))},
            {595: (), 605: ({"service": "loki"},)},
            severity="ticket",
        ),
        Case(
            Kind.BELOW,
            "it took four minutes",
            {_up("loki"): then((1, 300), (0, 240), (1, 360))},
            {595: (), 605: (), 900: ()},
            severity="ticket",
        ),
    ),
    "RevocationsStale": (
        Case(
            Kind.FIRES,
            "the list is of 60 s, and no other one comes",
            {'hermes_platform_revocations_timestamp_seconds{origin="platform"}': steady(60, 1800)},
            {960: (), 1015: (), 1030: ({},), 1800: ({},)},
        ),
        Case(
            Kind.BELOW,
            "one comes after 15 minutes",
            {'hermes_platform_revocations_timestamp_seconds{origin="platform"}': then((60, 960), (960, 840))},
            {960: (), 1030: (), 1800: ()},
        ),
    ),
    "PlatformCertificateExpiring": (
        Case(
            Kind.FIRES,
            "it ends in two weeks",
            {'hermes_platform_certificate_not_after_timestamp_seconds{origin="platform"}': steady(1209600 + 299, 900)},
            {590: (), 610: ({},)},
        ),
        Case(
            Kind.BELOW,
            "a little later",
            {'hermes_platform_certificate_not_after_timestamp_seconds{origin="platform"}': steady(1209600 + 901, 900)},
            {610: (), 900: ()},
        ),
    ),
    "ProvisionStuck": (
        Case(
            Kind.FIRES,
            "one has begun 800 s before",
            monitor(900) | {"hermesops_provision_oldest_seconds": f"{growing(15, 600, begin=800)} {then((0, 285))}"},
            {105: (), 155: (), 170: ({},), 600: ({},), 625: ()},
        ),
        Case(
            Kind.BELOW,
            "one that ends after a quarter of an hour",
            monitor(900) | {"hermesops_provision_oldest_seconds": f"{growing(15, 120, begin=800)} {then((0, 765))}"},
            {105: (), 170: (), 900: ()},
        ),
        Case(
            Kind.BELOW,
            "none is under way",
            monitor(900) | {"hermesops_provision_oldest_seconds": steady(0, 900)},
            {900: ()},
        ),
        Case(
            Kind.HOSTILE,
            "NaN of one monitor does not hide another's",
            monitor(900)
            | {
                'hermesops_provision_oldest_seconds{source="a"}': steady("NaN", 900),
                'hermesops_provision_oldest_seconds{source="b"}': steady(901, 900),
            },
            {300: ({},)},
        ),
    ),
    "MonitorStoppedActing": (
        Case(
            Kind.FIRES,
            "it says why",
            monitor(900) | {'hermesops_monitor_stopped_acting{reason="share of the fleet"}': f"_x20 {steady(1, 300)}"},
            {295: (), 305: ({"reason": "share of the fleet"},), 730: ()},
        ),
        Case(
            Kind.BELOW,
            "it acts",
            monitor(900) | {'hermesops_monitor_stopped_acting{reason="share of the fleet"}': steady(0, 900)},
            {300: (), 900: ()},
        ),
    ),
    "VendorDown": (
        Case(
            Kind.FIRES,
            "the toolbox answers nobody from 300 s to 600 s",
            monitor(1200)
            | {_way("justavps"): steady(1, 1200), _way("proxy"): steady(1, 1200)}
            | {_way("toolbox"): then((1, 300), (0, 300), (1, 600))},
            {355: (), 365: ({},), 590: ({},), 890: ({},), 920: ()},
        ),
        Case(
            Kind.FIRES,
            "the API answers nobody: one alert, though nobody knows of the others",
            monitor(900)
            | {_way("justavps"): then((1, 300), (0, 600))}
            | {_way(name): then((1, 300), ("_", 600)) for name in ("toolbox", "proxy")},
            {355: (), 365: ({},), 890: ({},)},
        ),
        Case(
            Kind.FIRES,
            "two ways at once: one alert",
            {_way(x): steady(0, 300) for x in ("toolbox", "proxy")},
            {200: ({},)},
        ),
        Case(
            Kind.BELOW,
            "it was away for less than a minute",
            monitor(900) | {_way("toolbox"): then((1, 300), (0, 45), (1, 555))},
            {340: (), 365: (), 900: ()},
        ),
        Case(
            Kind.BELOW,
            "the registry and Prometheus are others' alerts",
            monitor(900) | {_way(name): steady(0, 900) for name in ("registry", "prometheus")},
            {400: (), 900: ()},
        ),
        Case(
            Kind.HOSTILE,
            "NaN is no answer of anybody's",
            monitor(900) | {_way("toolbox"): steady("NaN", 900), _way("proxy"): steady(1, 900)},
            {400: (), 900: ()},
        ),
        Case(
            Kind.FIRES,
            "what nobody knows any more is told for a minute, and for as long as it goes on firing",
            monitor(900) | {_way("toolbox"): then((0, 105), ("_", 795))},
            {50: (), 95: ({},), 450: ({},), 500: (), 900: ()},
        ),
    ),
    "RolloutHalted": (
        Case(
            Kind.FIRES,
            "a gate failed",
            monitor(900) | {'hermesops_rollout_halted{rollout="r-1"}': f"_x20 {steady(1, 300)}"},
            {325: (), 335: ({"rollout": "r-1"},), 730: ()},
        ),
        Case(
            Kind.BELOW,
            "it runs",
            monitor(900)
            | {'hermesops_rollout_halted{rollout="r-1"}': steady(0, 900)}
            | {'hermesops_rollout_state{rollout="r-1", state="running"}': steady(1, 900)},
            {400: (), 900: ()},
        ),
    ),
    "NodeOutdated": _simple(
        world(90000, every_s=600),
        {'hermesops_instance_outdated{instance_id="ada"}': steady(1, 90000, 600)},
        {
            'hermesops_instance_outdated{instance_id="ada"}': steady(1, 90000, 600),
            'hermesops_rollout_state{rollout="r-1", state="running"}': then(("_", 60000), (1, 600), every_s=600),
        },
        87000,
        ADA,
        seconds=90000,
        before=85800,
        every_s=600,
        evaluated_s=600,
    ),
    "BreakGlassOpen": (
        Case(
            Kind.FIRES,
            "by the machine's own word, although an operation holds the instance",
            world(900) | {of("hermes_break_glass_open"): then((0, 300), (1, 300), (0, 300))} | busy("ada", 900),
            {295: (), 305: (_BREAK_GLASS,), 605: ()},
        ),
        Case(
            Kind.FIRES,
            "by the monitor's, although the machine denies it",
            world(900)
            | {of("hermes_break_glass_open"): steady(0, 900)}
            | {'hermesops_break_glass_open{instance_id="ada"}': f"_x20 {steady(1, 300)}"},
            {295: (), 305: (_BREAK_GLASS,)},
        ),
        Case(Kind.BELOW, "it is closed", world(900) | {of("hermes_break_glass_open"): steady(0, 900)}, {900: ()}),
    ),
}


def _space(available: str, mountpoint: str = "/", **labels: str) -> Series:
    """What the platform's host has left of 1,000 bytes."""
    every = {"job": "host", "mountpoint": mountpoint, **(labels or {"origin": "platform"})}
    inside = ", ".join(f'{name}="{value}"' for name, value in every.items())
    return {
        f"node_filesystem_avail_bytes{{{inside}}}": available,
        f"node_filesystem_size_bytes{{{inside}}}": "1000x2000",
    }


def _answers(provider: str, status: str, model: str = "m") -> str:
    return (
        f'hermes_router_provider_answers_total{{job="platform", origin="platform", service="router",'
        f' provider="{provider}", model="{model}", status="{status}"}}'
    )


_AGE = 'hermes_router_accounts_age_seconds{job="platform", origin="platform", service="router"}'
_LOST = 'hermes_router_usage_lost_total{job="platform", origin="platform", service="router"}'
_USERS_OF_API = 'hermesops_api_users{kind="KIND"}'
_SLOW = then((0, 300), (3, 600), (0, 1800))
_WEBHOOKS = 'hermesops_webhooks{outcome="OUTCOME"}'
_CONNECTED = 'hermesops_connections_users{service="gmail", state="STATE"}'
_OLDEST = 'hermesops_billing_oldest_seconds{state="STATE"}'
_UNROUTED: Labels = {"state": "unrouted"}
_TELEGRAM: Labels = {"messenger": "telegram"}


def _messages(**values: str) -> Series:
    """Users by what became of their messages; nobody in the states that are not given."""
    none = steady(0, 2400)
    states = ("unrouted", "held", "unanswered", "answered")
    return {f'hermesops_messages_users{{state="{state}"}}': values.get(state, none) for state in states}


def _notified(**values: str) -> Series:
    """Callers that are notified, by state."""
    return {f'hermesops_notified_callers{{state="{state}"}}': line for state, line in values.items()}


def _messenger(messenger: str = "telegram", **values: str) -> Series:
    """Users of a messenger, by state."""
    return {
        f'hermesops_messenger_users{{messenger="{messenger}", state="{state}"}}': line for state, line in values.items()
    }


_REFUSED = {
    _answers("anthropic", "401"): then((0, 300), *((number, 15) for number in range(1, 81))),
    _answers("anthropic", "200"): f"{growing(1, 300)} {then((20, 1200))}",
}
_OTHERS: Series = {_answers("openai", "200"): growing(1, 1500), _answers("openai", "401"): steady(0, 1500)}

_SESSION = 'hermesops_messenger_session{messenger="discord"}'

SHARED: dict[str, tuple[Case, ...]] = {
    "PlatformDatabaseLogStuck": (
        Case(
            Kind.FIRES,
            "the log waits from 300 s on, and comes and goes once: that is one alert",
            {_DATABASE.format("log_segments_waiting"): then((0, 300), (31, 600), (30, 120), (31, 600), (0, 600))},
            {595: (), 605: ({},), 900: ({},), 1200: ({},), 1600: ({},), 1930: ()},
        ),
        Case(
            Kind.FIRES,
            "the bucket does not answer",
            {
                _DATABASE.format("repository_up"): then((1, 300), (0, 600)),
                _DATABASE.format("log_segments_waiting"): steady(0, 900),
            },
            {595: (), 605: ({},)},
        ),
        Case(
            Kind.FIRES,
            "nobody writes figures any more, and the last ones are good",
            {
                _DATABASE.format("repository_up"): steady(1, 1800),
                _DATABASE.format("log_segments_waiting"): steady(0, 1800),
                _WRITTEN.replace("FILE", "postgresql"): then(*((at, 30) for at in range(0, 300, 30)), (300, 1500)),
            },
            {900: (), 910: ({},)},
        ),
        Case(
            Kind.BELOW,
            "it waits for less, or less long; another service's file is old",
            {
                _DATABASE.format("log_segments_waiting"): then((30, 600), (500, 285), (0, 915)),
                _DATABASE.format("repository_up"): then((1, 300), (0, 285), (1, 1215)),
                _WRITTEN.replace("FILE", "other"): steady(0, 1800),
            },
            dict.fromkeys(range(0, 1800, 60), ()),
        ),
        Case(
            Kind.HOSTILE,
            "a gap of a minute and NaN do not end it; a machine that writes such series is nobody",
            world(1200)
            | {
                _DATABASE.format("log_segments_waiting"): then((40, 600), ("_", 60), (40, 540)),
                _DATABASE.format("repository_up"): steady("NaN", 1200),
            }
            | anybodys("hermes_platform_postgresql_repository_up", steady(0, 1200), job="host")
            | anybodys("node_textfile_mtime_seconds", steady(0, 1200), job="host", file="postgresql.prom"),
            {310: ({},), 640: ({},), 1200: ({},)},
        ),
        Case(
            Kind.HOSTILE,
            "a machine that writes such series is nobody",
            world(1200)
            | anybodys("hermes_platform_postgresql_log_segments_waiting", steady(500, 1200), job="host")
            | anybodys("hermes_platform_postgresql_repository_up", steady(0, 1200), job="host")
            | anybodys("node_textfile_mtime_seconds", steady(0, 1200), job="host", file="postgresql.prom"),
            {600: (), 1200: ()},
        ),
    ),
    "PlatformBackupOverdue": (
        Case(
            Kind.FIRES,
            "the newest is of 26 hours and a minute ago, whatever its type",
            {
                _BACKUP.replace("TYPE", "full"): steady(-400000, 1800),
                _BACKUP.replace("TYPE", "diff"): then((-93540, 1200), (1200, 600)),
            },
            {50: (), 355: (), 375: ({},), 1195: ({},), 1220: ()},
        ),
        Case(
            Kind.BELOW,
            "one is made after 26 hours, late by two minutes",
            {_BACKUP.replace("TYPE", "diff"): then((-93540, 180), (180, 1620))},
            {100: (), 375: (), 1800: ()},
        ),
    ),
    "PlatformDiskFilling page": (
        Case(
            Kind.FIRES,
            "one of its disks is full",
            _space(steady(500, 900)) | _space(then((500, 300), (49, 600)), "/var/lib/hermes-platform/postgresql"),
            {355: (), 365: ({"mountpoint": "/var/lib/hermes-platform/postgresql"},)},
            severity="page",
        ),
        Case(
            Kind.BELOW,
            "it is nearly full; another disk, and a machine's own, are none of the platform's",
            world(900)
            | _space(then((500, 300), (50, 600)))
            | _space(steady(0, 900), "/boot/efi")
            | _space(steady(0, 900), instance_id="ada")
            | _space(steady(0, 900), machine="m-pool"),
            {365: (), 900: ()},
            severity="page",
        ),
        Case(
            Kind.HOSTILE,
            "a size that is nothing or NaN, and a gap, hide no other disk",
            {
                **_space(then((40, 300), ("_", 120), (40, 480))),
                **_space(steady(40, 900), "/var"),
                'node_filesystem_size_bytes{job="host", origin="platform", mountpoint="/var"}': then(
                    (0, 450), ("NaN", 450)
                ),
            },
            {65: ({"mountpoint": "/"},), 400: ({"mountpoint": "/"},), 900: ({"mountpoint": "/"},)},
            severity="page",
        ),
    ),
    "PlatformDiskFilling ticket": (
        Case(
            Kind.FIRES,
            "it takes 4.5 % an hour, at 70 %",
            _space(growing(-0.75, 10800, begin=300, every_s=60)),
            {600: (), 1200: ({"mountpoint": "/"},)},
            severity="ticket",
            every_s=60,
            evaluated_s=60,
        ),
        Case(
            Kind.BELOW,
            "1.2 % an hour",
            _space(growing(-0.2, 10800, begin=300, every_s=60)),
            {1200: (), 10800: ()},
            severity="ticket",
            every_s=60,
            evaluated_s=60,
        ),
    ),
    "RouterAccountsStale": (
        Case(
            Kind.FIRES,
            "the registry does not answer from 300 s to 900 s",
            {_AGE: f"{steady(1, 300)} {growing(15, 600)} {steady(1, 900)}"},
            {470: (), 485: ({},), 900: ({},), 1615: ({},), 1665: ()},
        ),
        Case(
            Kind.FIRES,
            "it never read any",
            {_AGE: steady("+Inf", 600)},
            {85: (), 95: ({},)},
        ),
        Case(
            Kind.BELOW,
            "a failover takes two minutes",
            {_AGE: f"{steady(1, 300)} {growing(15, 120)} {steady(1, 900)}"},
            dict.fromkeys(range(0, 1320, 15), ()),
        ),
        Case(
            Kind.BELOW,
            "it restarts every minute: each is another one, which reads at once",
            {_AGE: then(*((value, 15) for _ in range(15) for value in ("+Inf", 1, 2, 3)))},
            dict.fromkeys(range(0, 900, 15), ()),
        ),
        Case(
            Kind.HOSTILE,
            "NaN and a machine that writes such a figure are nothing",
            world(900)
            | {_AGE: steady("NaN", 900)}
            | anybodys("hermes_router_accounts_age_seconds", "500x60", job="platform"),
            {600: (), 900: ()},
        ),
    ),
    "RouterUsageLost": (
        Case(
            Kind.FIRES,
            "three answers are lost",
            {_LOST: then((0, 300), (3, 3600))},
            {295: (), 310: ({},), 1200: ({},), 2000: ({},), 2200: ()},
        ),
        Case(Kind.BELOW, "what was lost before", {_LOST: steady(7, 1800)}, {900: (), 1800: ()}),
        Case(
            Kind.BELOW,
            "it restarts, and counts from nothing",
            {_LOST: then((7, 600), ("_", 60), (0, 600))},
            {600: (), 700: (), 1200: ()},
        ),
        Case(
            Kind.HOSTILE,
            "one that restarts and loses again before it is asked",
            {_LOST: then((7, 600), (2, 600))},
            {590: (), 620: ({},)},
        ),
    ),
    "ProviderKeyRefused ticket": (
        Case(
            Kind.FIRES,
            "another provider answers in its place",
            _REFUSED | _OTHERS,
            {890: (), 1000: (), 1215: ({"provider": "anthropic"},), 1490: ({"provider": "anthropic"},)},
            severity="ticket",
        ),
        Case(
            Kind.BELOW,
            "it refuses one request, and answers others",
            {
                _answers("anthropic", "401"): then((0, 300), (1, 1200)),
                _answers("anthropic", "200"): growing(1, 1500),
                **_OTHERS,
            },
            dict.fromkeys(range(0, 1500, 30), ()),
            severity="ticket",
        ),
        Case(
            Kind.HOSTILE,
            "counters that begin again are no answers; those of a machine are none either",
            {
                **_OTHERS,
                _answers("anthropic", "401"): then((50, 300), (0, 1200)),
                _answers("anthropic", "200"): then((900, 300), (0, 1200)),
            }
            | anybodys(
                "hermes_router_provider_answers_total", growing(1, 1500), job="platform", provider="x", status="401"
            ),
            dict.fromkeys(range(0, 1500, 30), ()),
            severity="ticket",
        ),
    ),
    "ProviderKeyRefused page": (
        Case(
            Kind.FIRES,
            "and no other one answers",
            _REFUSED | {_answers("openai", "429"): growing(1, 1500), _answers("openai", "200"): steady(9, 1500)},
            {1000: (), 1215: ({"provider": "anthropic"},), 1490: ({"provider": "anthropic"},)},
            severity="page",
        ),
        Case(Kind.BELOW, "another one answers", _REFUSED | _OTHERS, {1215: (), 1490: ()}, severity="page"),
        Case(
            Kind.BELOW,
            "nobody asks any more",
            {_answers("anthropic", "401"): then((0, 300), (2, 1500)), _answers("anthropic", "200"): steady(9, 1800)},
            {300: (), 590: (), 1640: ()},
            severity="page",
        ),
    ),
    "BillingEventsWaiting": (
        Case(
            Kind.FIRES,
            "the oldest one of a state is an hour old at 300 s, and decided at 900 s",
            {
                _OLDEST.replace("STATE", "queued"): steady(2, 1800),
                _OLDEST.replace("STATE", "set_aside"): f"{growing(15, 900, begin=3300)} {then((0, 900))}",
            },
            {305: (), 605: (), 620: ({},), 895: ({},), 920: ()},
        ),
        Case(
            Kind.BELOW,
            "an hour, and no more",
            {_OLDEST.replace("STATE", "waiting"): f"{growing(15, 900, begin=2700)} {then((3600, 900))}"},
            {900: (), 1800: ()},
        ),
        Case(
            Kind.HOSTILE,
            "NaN of one state and a monitor that restarts do not hide another's",
            {
                _OLDEST.replace("STATE", "queued"): steady("NaN", 1800),
                _OLDEST.replace(
                    "STATE", "waiting"
                ): f"{growing(15, 900, begin=3601)} _x6 {growing(15, 810, begin=4600)}",
            },
            {310: ({},), 960: ({},), 1500: ({},)},
        ),
    ),
    "ApiSlow": (
        Case(
            Kind.FIRES,
            "three of ten users wait from 300 s to 900 s; it is told until what it stands for is over, too",
            {_USERS_OF_API.replace("KIND", "all"): steady(10, 2700), _USERS_OF_API.replace("KIND", "slow"): _SLOW},
            {595: (), 615: ({},), 905: ({},), 1500: ({},), 1800: ()},
        ),
        Case(
            Kind.BELOW,
            "two of two users: one user with two accounts",
            {_USERS_OF_API.replace("KIND", kind): steady(2, 1500) for kind in ("all", "slow")},
            {900: (), 1500: ()},
        ),
        Case(
            Kind.BELOW,
            "three of twelve users",
            {
                _USERS_OF_API.replace("KIND", "all"): steady(12, 1500),
                _USERS_OF_API.replace("KIND", "slow"): steady(3, 1500),
            },
            {900: (), 1500: ()},
        ),
        Case(
            Kind.HOSTILE,
            "NaN and nobody",
            {
                _USERS_OF_API.replace("KIND", "all"): steady(0, 1500),
                _USERS_OF_API.replace("KIND", "slow"): steady("NaN", 1500),
            },
            {900: (), 1500: ()},
        ),
    ),
    "TurnsOrphaned": (
        Case(
            Kind.FIRES,
            "one user waits from 300 s to 900 s",
            {"hermesops_turns_orphaned_users": then((0, 300), (1, 600), (0, 600))},
            {475: (), 495: ({},), 895: ({},), 930: ()},
        ),
        Case(
            Kind.BELOW,
            "a restart of the API: another process takes the turn over in time",
            {"hermesops_turns_orphaned_users": then((0, 300), (1, 165), (0, 600))},
            {465: (), 480: (), 900: ()},
        ),
        Case(Kind.HOSTILE, "NaN", {"hermesops_turns_orphaned_users": steady("NaN", 900)}, {900: ()}),
    ),
    "WebhooksRefused": (
        Case(
            Kind.FIRES,
            "all are refused from 300 s to 1200 s",
            {
                _WEBHOOKS.replace("OUTCOME", "refused"): then((0, 300), (4, 900), (0, 600)),
                _WEBHOOKS.replace("OUTCOME", "taken"): steady(0, 1800),
            },
            {895: (), 915: ({},), 1195: ({},), 1230: ()},
        ),
        Case(
            Kind.BELOW,
            "somebody sends forged events, while the vendor's are taken",
            {
                _WEBHOOKS.replace("OUTCOME", "refused"): steady(900, 1800),
                _WEBHOOKS.replace("OUTCOME", "taken"): steady(1, 1800),
            },
            {1200: (), 1800: ()},
        ),
        Case(
            Kind.HOSTILE,
            "NaN of what was taken hides nothing",
            {
                _WEBHOOKS.replace("OUTCOME", "refused"): steady(3, 1800),
                _WEBHOOKS.replace("OUTCOME", "taken"): steady("NaN", 1800),
            },
            {1200: ({},)},
        ),
    ),
    "ConnectionsExpired": (
        Case(
            Kind.FIRES,
            "three of nine users of one service lose theirs at 300 s",
            {
                _CONNECTED.replace("STATE", "linked"): then((9, 300), (6, 1800)),
                _CONNECTED.replace("STATE", "expired"): then((0, 300), (3, 1800)),
                _CONNECTED.replace("STATE", "linked").replace("gmail", "slack"): steady(9, 2100),
                _CONNECTED.replace("STATE", "expired").replace("gmail", "slack"): steady(1, 2100),
            },
            {1195: (), 1215: ({"service": "gmail"},), 2000: ({"service": "gmail"},)},
        ),
        Case(
            Kind.BELOW,
            "three of twelve",
            {
                _CONNECTED.replace("STATE", "linked"): steady(9, 2100),
                _CONNECTED.replace("STATE", "expired"): steady(3, 2100),
            },
            {1500: (), 2000: ()},
        ),
        Case(
            Kind.BELOW,
            "one user's",
            {
                _CONNECTED.replace("STATE", "linked"): steady(0, 2100),
                _CONNECTED.replace("STATE", "expired"): steady(1, 2100),
            },
            {1500: (), 2000: ()},
        ),
        Case(
            Kind.HOSTILE,
            "NaN",
            {_CONNECTED.replace("STATE", state): steady("NaN", 2100) for state in ("linked", "expired")},
            {2000: ()},
        ),
    ),
    "CallerNotificationsUndelivered": (
        Case(
            Kind.FIRES,
            "hosts of three of eleven callers are not reached from 300 s to 900 s",
            _notified(undelivered=then((0, 300), (3, 600), (0, 1200)), delivered=steady(8, 2100)),
            {585: (), 615: ({},), 1185: ({},), 1300: ()},
        ),
        Case(
            Kind.FIRES,
            "nobody is notified",
            _notified(undelivered=steady(3, 900), delivered=steady(0, 900)),
            {285: (), 315: ({},)},
        ),
        Case(
            Kind.BELOW,
            "three of twelve",
            _notified(undelivered=steady(3, 1500), delivered=steady(9, 1500)),
            {600: (), 1500: ()},
        ),
        Case(
            Kind.BELOW,
            "two callers whose hosts are away",
            _notified(undelivered=steady(2, 1500), delivered=steady(0, 1500)),
            {600: (), 1500: ()},
        ),
        Case(
            Kind.HOSTILE,
            "NaN of what was delivered hides nothing",
            _notified(undelivered=steady(3, 900), delivered=steady("NaN", 900)),
            {900: ({},)},
        ),
    ),
    "MessagesWaiting": (
        Case(
            Kind.FIRES,
            "one account waits for the connector from 300 s to 900 s; it is told until what it stands for is over, too",
            _messages(unrouted=then((0, 300), (1, 600), (0, 1500))),
            {415: (), 435: (_UNROUTED,), 905: (_UNROUTED,), 1500: (_UNROUTED,), 1800: ()},
        ),
        Case(
            Kind.FIRES,
            "three of eleven users wait at open sockets",
            _messages(held=then((0, 300), (3, 600), (0, 1500)), answered=steady(8, 2400)),
            {415: (), 435: ({"state": "held"},), 1500: ({"state": "held"},), 1800: ()},
        ),
        Case(
            Kind.FIRES,
            "agents have messages of three users, and answer nobody",
            _messages(unanswered=then((0, 300), (3, 600), (0, 1500))),
            {415: (), 435: ({"state": "unanswered"},)},
        ),
        Case(
            Kind.BELOW, "a restart of the connector", _messages(unrouted=then((0, 300), (9, 105), (0, 900))), {900: ()}
        ),
        Case(
            Kind.BELOW,
            "two users whose agents read nothing",
            _messages(held=steady(2, 1500), unanswered=steady(2, 1500)),
            {600: (), 1500: ()},
        ),
        Case(
            Kind.BELOW,
            "three of twelve users",
            _messages(held=steady(3, 1500), unanswered=steady(3, 1500), answered=steady(9, 1500)),
            {600: (), 1500: ()},
        ),
        Case(
            Kind.HOSTILE,
            "NaN of what was answered hides nothing, and NaN of what waits is nothing",
            _messages(held=steady(3, 900), unrouted=steady("NaN", 900), answered=steady("NaN", 900)),
            {900: ({"state": "held"},)},
        ),
    ),
    "AnswersUndelivered": (
        Case(
            Kind.FIRES,
            "a messenger is away for an hour: one page, until all have their answers",
            _messenger(
                undelivered=f"{then((0, 300))} {growing(1, 3600, begin=3)} {then((20, 300), (0, 1500))}",
                delivered=then((9, 300), (0, 3600), (90, 1800)),
            )
            | _messenger("slack", undelivered=steady(0, 5700), delivered=steady(9, 5700)),
            {
                415: (),
                435: (_TELEGRAM,),
                3600: (_TELEGRAM,),
                3915: (_TELEGRAM,),
                4300: (),
            },
            severity="page",
        ),
        Case(
            Kind.BELOW,
            "three of twelve: their chats are limited",
            _messenger(undelivered=steady(3, 1500), delivered=steady(9, 1500)),
            {600: (), 1500: ()},
            severity="page",
        ),
        Case(
            Kind.BELOW,
            "a messenger that we do not have is nobody's",
            _messenger("<!channel>", undelivered=steady(9, 1500), delivered=steady(0, 1500)),
            {1500: ()},
            severity="page",
        ),
        Case(
            Kind.HOSTILE,
            "NaN of what was delivered hides nothing",
            _messenger(undelivered=steady(3, 900), delivered=steady("NaN", 900)),
            {900: (_TELEGRAM,)},
            severity="page",
        ),
    ),
    "AnswersUndelivered ticket": (
        Case(
            Kind.FIRES,
            "one user of a quiet platform waits, and nobody got anything",
            _messenger(undelivered=then((0, 300), (1, 1500), (0, 600)), delivered=steady(0, 2400)),
            {1185: (), 1215: (_TELEGRAM,), 2130: ()},
            severity="ticket",
        ),
        Case(
            Kind.BELOW,
            "one user waits, and another one got an answer",
            _messenger(undelivered=steady(1, 1800), delivered=steady(1, 1800)),
            {1800: ()},
            severity="ticket",
        ),
    ),
    "AnswersUncertain": (
        Case(
            Kind.FIRES,
            "a messenger hangs from 300 s to 900 s",
            _messenger(uncertain=then((0, 300), (3, 600), (0, 1500)), delivered=then((9, 300), (0, 600), (9, 1500))),
            {415: (), 435: (_TELEGRAM,), 1185: (_TELEGRAM,), 1300: ()},
            severity="page",
        ),
        Case(
            Kind.BELOW,
            "three of twelve: their answers were lost on the way",
            _messenger(uncertain=steady(3, 1500), delivered=steady(9, 1500)),
            {600: (), 1500: ()},
            severity="page",
        ),
        Case(
            Kind.HOSTILE,
            "NaN of what was delivered hides nothing",
            _messenger(uncertain=steady(3, 900), delivered=steady("NaN", 900)),
            {900: (_TELEGRAM,)},
            severity="page",
        ),
    ),
    "AnswersUncertain ticket": (
        Case(
            Kind.FIRES,
            "one user of a quiet platform, and nobody got anything",
            _messenger(uncertain=then((0, 300), (1, 600), (0, 900)), delivered=steady(0, 1800)),
            {465: (), 495: (_TELEGRAM,), 1300: ()},
            severity="ticket",
        ),
        Case(
            Kind.BELOW,
            "one user, and another one got an answer",
            _messenger(uncertain=steady(1, 1800), delivered=steady(1, 1800)),
            {1800: ()},
            severity="ticket",
        ),
    ),
    "AnswersOutsideWindow": (
        Case(
            Kind.FIRES,
            "three of eleven users are silent for a day from 300 s on",
            _messenger("whatsapp", waiting=then((0, 300), (3, 6000)), linked=steady(11, 6300)),
            {3800: (), 3960: ({"messenger": "whatsapp"},)},
            severity="ticket",
        ),
        Case(
            Kind.BELOW,
            "three of twelve, and two of two",
            _messenger("whatsapp", waiting=steady(3, 6300), linked=steady(12, 6300))
            | _messenger("slack", waiting=steady(2, 6300), linked=steady(2, 6300)),
            {6000: ()},
            severity="ticket",
        ),
        Case(
            Kind.HOSTILE,
            "NaN of who has linked hides nothing",
            _messenger("whatsapp", waiting=steady(3, 6300), linked=steady("NaN", 6300)),
            {6000: ({"messenger": "whatsapp"},)},
            severity="ticket",
        ),
    ),
    "BotWithoutSession": (
        Case(
            Kind.FIRES,
            "no session from 300 s to 900 s",
            {_SESSION: then((1, 300), (0, 600), (1, 1200))},
            {470: (), 495: ({"messenger": "discord"},), 1170: ({"messenger": "discord"},), 1300: ()},
            severity="page",
        ),
        Case(
            Kind.BELOW,
            "a restart of the connector",
            {_SESSION: then((1, 300), (0, 120), (1, 900))},
            {480: (), 900: ()},
            severity="page",
        ),
        Case(
            Kind.HOSTILE, "NaN is no word about a session", {_SESSION: steady("NaN", 900)}, {900: ()}, severity="page"
        ),
    ),
    "MessengerBlocked": (
        Case(
            Kind.FIRES,
            "the token is refused from 300 s to 900 s",
            _messenger(refused=then((0, 300), (1, 600), (0, 1500))),
            {350: (), 375: (_TELEGRAM,), 1500: (_TELEGRAM,), 1800: ()},
            severity="page",
        ),
        Case(
            Kind.BELOW,
            "a token is changed: one answer is refused, and taken a little later",
            _messenger(refused=then((0, 300), (1, 45), (0, 900))),
            {375: (), 900: ()},
            severity="page",
        ),
    ),
    "MessengerBlocked ticket": (
        Case(
            Kind.FIRES,
            "three of nine users block the bot at 300 s",
            _messenger(linked=then((9, 300), (6, 1800)), blocked=then((0, 300), (3, 1800))),
            {1185: (), 1215: (_TELEGRAM,), 2000: (_TELEGRAM,)},
            severity="ticket",
        ),
        Case(
            Kind.BELOW,
            "three of twelve",
            _messenger(linked=steady(9, 1800), blocked=steady(3, 1800)),
            {1800: ()},
            severity="ticket",
        ),
        Case(
            Kind.HOSTILE,
            "NaN",
            _messenger(linked=steady("NaN", 1800), blocked=steady("NaN", 1800)),
            {1800: ()},
            severity="ticket",
        ),
    ),
}
"""Of what all share: database, disk, model router, billing, the users' API, messengers."""

CASES: dict[str, tuple[Case, ...]] = {
    **{
        alert: tuple(replace(case, evaluated_s=15) for case in cases)  # many instances, and no seconds that count
        for alert, cases in OBJECTIVES.items()
    },
    **HEARTBEATS,
    **GATEWAY,
    **MODEL,
    **MACHINE,
    **DATA,
    **PLATFORM,
    **SHARED,
}
"""By the alert's name, and a word for which of several rules where it has several."""
