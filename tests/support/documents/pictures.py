"""Makes the pictures of the README from real runs: ``make pictures`` writes them into runbooks/pictures."""

import asyncio
import fcntl
import io
import os
import pty
import re
import struct
import tempfile
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

from hermesops.base import assets
from hermesops.observability.alerts import dashboards
from hermesops.observability.alerts.dashboards import Dashboard
from tests.support.alerts import fleet_past
from tests.support.documents import console_pictures, dashboard_picture, page_pictures
from tests.support.documents.diagrams import ROOT
from tests.support.pages.console import container_of
from tests.support.real.commands.command import Command, local_world
from tests.support.real.monitoring import prometheus
from tests.support.releases.simulated import built

PICTURES = ROOT / "runbooks" / "pictures"

_COLUMNS, _LINES = 110, 60
_FROM_ELSEWHERE = re.compile(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", re.DOTALL)
"""Rich's template loads fonts; a picture of ours asks nobody for anything."""


async def on_terminal(command: Command, *words: str) -> str:
    """What a command leaves on a terminal of its own: of what it drew anew, the last picture."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, _COLUMNS, 0, 0))
    process = await asyncio.create_subprocess_exec(
        *command.program,
        *words,
        env={**command.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    read = asyncio.to_thread(_all_of, ours)
    output, _ = await asyncio.gather(read, process.wait())
    return re.split(r"(?:\x1b\[\d*A|\x1b\[2K|\r)+(?!\n)", output.replace("\r\n", "\n"))[-1]


def _all_of(terminal: int) -> str:
    output = bytearray()
    try:
        while part := os.read(terminal, 65536):
            output += part
    except OSError:  # the other end was closed: all is read
        pass
    finally:
        os.close(terminal)
    return output.decode(errors="replace")


def drawn(output: str, title: str) -> str:
    """A terminal that shows that text, as SVG."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"$ {title}\n{output.strip()}"))
    return _FROM_ELSEWHERE.sub("", console.export_svg(title=title, unique_id="terminal")) + "\n"


async def fleet_status(world: Command) -> str:
    """The fleet as JustAVPS, the agents and the registry have it."""
    words = ("fleet", "status", "--live", "--ask")
    return drawn(await on_terminal(world, *words), f"hermesops {' '.join(words)}")


async def halted_rollout(world: Command) -> str:
    """A release whose agents crash in their second turn, halted by its gate."""
    release = await built(world, "broken", "turn:1.0")
    stages = ("--stages", "2%,25%,100%", "--soak", "1s", "--settle", "0s", "--vitals", "none", "--drill", "no")
    return drawn(
        await on_terminal(world, "rollout", "start", release, "--all", *stages), "hermesops rollout start RELEASE --all"
    )


def dashboard_pictures(url: str) -> dict[str, str]:
    """Each of Grafana's dashboards from the answers of a Prometheus with the past of a made-up fleet, by its name."""
    span = dashboard_picture.Span(fleet_past.BEGIN, fleet_past.END)
    pictures = dict[str, str]()
    for path in sorted((assets.folder("roles") / "hermes_platform_monitoring/files/dashboards").glob("*.json")):
        read = dashboards.read(path.read_text(), path.name)
        assert isinstance(read, Dashboard), read
        answers = dashboard_picture.ask(url, read, span, {"instance": fleet_past.SHOWN})
        pictures[path.stem] = dashboard_picture.drawn(read, answers, span, "six hours of a made-up fleet of 18")
    return pictures


def _draw_dashboards(folder: Path) -> None:
    programs = prometheus.programs()
    assert programs, "Prometheus is needed: apt-get install prometheus"
    with prometheus.running(folder, programs, fleet_past.past()) as url:
        for name, picture in dashboard_pictures(url).items():
            (PICTURES / f"dashboard-{name}.svg").write_text(picture)


async def _main(agents: int) -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="hermesops-pictures") as folder:
        _draw_dashboards(Path(folder))
    with tempfile.TemporaryDirectory(prefix="hermesops-pictures") as home:
        async with local_world(Path(home), driver="sim") as world:
            users = Path(home) / "users.csv"
            names = "".join(f"user-{number},{'heavy' if number % 7 == 0 else 'light'},\n" for number in range(agents))
            users.write_text(f"user,plan,region\n{names}")
            await world.ok("provision", "--from", str(users))
            for number in (3, 64, 65, 130, 171):
                await world.ok("instance", "suspend", f"user-{number}", "--reason", "unpaid")
            (PICTURES / "fleet-status.svg").write_text(await fleet_status(world))
            (PICTURES / "halted-rollout.svg").write_text(await halted_rollout(world))
            await console_pictures.draw(container_of(world.environ), PICTURES)
    await page_pictures.draw(PICTURES)


if __name__ == "__main__":
    asyncio.run(_main(agents=200))
