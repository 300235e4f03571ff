"""What the README shows is what the commands print, and what it tells people to type can be typed."""

import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.behind_its_back import delete_behind_its_back
from tests.support.command import Command, local_world

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL)

VOLATILE = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
    (r"hermes-local-cell\d+-[0-9a-f]{12}", "<machine>"),
    (r"\bm-[0-9a-f]{8}\b", "<slug>"),
    (r"127\.0\.0\.1:\d+", "<api>"),
    (r"10\.213\.\d+\.\d+", "<gateway>"),
    (r"\(key in .*?/world/api\.key\)", "(key in <world>)"),
    (r"images  \d+", "images  <count>"),
    (r"room    for \d+ more machines: .*", "room    for <some> more machines: <figures>"),
    (r"\bbackup [0-9a-f]{8}\b", "backup <id>"),
    (r"\bkey [0-9a-f]{8}\b", "key <id>"),
    (r"\b\d+ (cron|memory|messages|pairings|sessions|skills|bytes)\b", r"<count> \1"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d\b", "<time>"),
)


def normal(text: str) -> list[str]:
    for pattern, word in VOLATILE:
        text = re.sub(pattern, word, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def commands_of(block: str) -> list[tuple[list[str], str]]:
    """Each command of a block with the output shown below it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(shlex.split(part.partition("\n")[0]), part.partition("\n")[2]) for part in parts]


def test_the_two_commands_are_the_makefiles() -> None:
    assert [words for words, _ in commands_of(BLOCKS[0])] == [["make", "demo"], ["make", "test"]]
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}:" in makefile for target in ("demo", "test", "lint", "bench", "soak"))


def test_the_demo_runs_what_the_readme_shows() -> None:
    recipe = re.findall(r"^\trun (hermesops .*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    shown = [shlex.join(words) for words, _ in commands_of(BLOCKS[1])]
    assert [shlex.join(shlex.split(line.replace("$(USER_NAME)", "ada"))) for line in recipe] == shown


@pytest.mark.machines
async def test_the_readme_shows_what_is_printed(world: Command) -> None:
    for words, shown in commands_of(BLOCKS[1]):
        ran = await world.ok(*words[1:])
        missing = set(normal(shown)) - set(normal(ran.stdout))
        assert not missing, f"{missing} is shown, this was printed:\n{ran}"
    for words, _ in commands_of(BLOCKS[2]):
        if words[1] != "local":  # the world is others' too; purging one is tested where nobody else is
            await world.ok(*words[1:])


@pytest.fixture
async def simulated(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """A world whose settings are those of a new user; machines of it cost next to nothing."""
    async with local_world(tmp_path_factory.mktemp("everyday"), driver="sim") as command:
        yield command.with_variables(
            HERMESOPS_GRACE_DAYS="7", HERMESOPS_LAST_BACKUP="required", HERMESOPS_FORMER_DAYS="1"
        )


async def test_everyday_work_prints_what_the_readme_shows(simulated: Command) -> None:
    await simulated.ok("provision", "ada", "--plan", "light")
    await _print_what_is_shown(simulated, BLOCKS[3])
    [row] = (await simulated.ok("instance", "list", "--json")).json["instances"]
    await delete_behind_its_back(simulated.home / "local" / "world", row["machine_id"])
    await _print_what_is_shown(simulated, BLOCKS[4])


@pytest.mark.turns(6, at=5)
async def test_releases_and_rollouts_print_what_the_readme_shows(simulated: Command) -> None:
    if not (await simulated.ok("instance", "list", "--json")).json["instances"]:
        await simulated.ok("provision", "ada", "--plan", "light")
    await _print_what_is_shown(simulated, next(block for block in BLOCKS if "hermesops rollout start" in block))


async def test_environments_and_secrets_print_what_the_readme_shows(tmp_path: Path) -> None:
    command = Command(tmp_path)
    await command.ok("registry", "check")
    block = next(block for block in BLOCKS if "hermesops env list" in block)
    await _print_what_is_shown(command, block)


async def _print_what_is_shown(world: Command, block: str) -> None:
    for words, shown in commands_of(block):
        ran = await world.ok(*words[1:])
        if "chat" in words:
            assert ran.stdout.strip()  # a simulated agent echoes
            continue
        missing = set(normal(shown)) - set(normal(ran.stdout))
        assert not missing, f"{missing} is shown, this was printed:\n{ran}"


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_links_lead_somewhere(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("folder", re.findall(r"^\| (`.+?`) \|", README.partition("## Words")[0], flags=re.MULTILINE))
def test_folders_of_the_table_exist(folder: str) -> None:
    for name in re.findall(r"`([^`]+)`", folder):
        assert (ROOT / name).exists()
