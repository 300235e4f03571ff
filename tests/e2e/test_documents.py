"""What documents show is what the commands print, and what they tell people to type can be typed."""

import re
import shlex
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.real.commands.command import Command, local_world
from tests.support.vendor.outside_changes import delete_behind_its_back

ROOT = Path(__file__).resolve().parents[2]
RUNBOOKS = ROOT / "runbooks"
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(RUNBOOKS.glob("*.md"))]

VOLATILE = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uuid>"),
    (r"hermes-local-cell\d+-[0-9a-f]{12}", "<machine>"),
    (r"\bm-[0-9a-f]{8}\b", "<slug>"),
    (r"127\.0\.0\.1:\d+", "<api>"),
    (r"localhost:\d+", "<users>"),
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


def blocks_of(document: Path) -> list[str]:
    return re.findall(r"```console\n(.*?)```", document.read_text(), flags=re.DOTALL)


README = blocks_of(ROOT / "README.md")
EVERYDAY = blocks_of(RUNBOOKS / "everyday.md")


def commands_of(block: str) -> list[tuple[list[str], str]]:
    """Each command of a block with the output shown below it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(shlex.split(part.partition("\n")[0]), part.partition("\n")[2]) for part in parts]


def test_the_two_commands_are_the_makefiles() -> None:
    assert [words for words, _ in commands_of(README[0])] == [["make", "demo"], ["make", "test"]]
    makefile = (ROOT / "Makefile").read_text()
    assert all(f"\n{target}:" in makefile for target in ("demo", "test", "lint", "bench", "soak"))


def test_the_demo_runs_what_the_readme_shows() -> None:
    recipe = re.findall(r"^\trun (hermesops .*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    shown = [shlex.join(words) for words, _ in commands_of(README[1])]
    assert [shlex.join(shlex.split(line.replace("$(USER_NAME)", "ada"))) for line in recipe] == shown


@pytest.mark.machines
@pytest.mark.turns(30)
async def test_the_readme_shows_what_is_printed(world: Command) -> None:
    for words, shown in commands_of(README[1]):
        ran = await world.ok(*words[1:])
        missing = set(normal(shown)) - set(normal(ran.stdout))
        assert not missing, f"{missing} is shown, this was printed:\n{ran}"
    for words, _ in commands_of(README[2]):
        if words[1] != "local":  # the world is others' too; purging one is tested where nobody else is
            await world.ok(*words[1:])


@pytest.fixture
async def simulated(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """A world whose settings are those of a new user; machines of it cost next to nothing."""
    async with local_world(tmp_path_factory.mktemp("everyday"), driver="sim") as command:
        yield command.with_variables(
            HERMESOPS_GRACE_DAYS="7", HERMESOPS_LAST_BACKUP="required", HERMESOPS_PREVIOUS_DAYS="1"
        )


@pytest.mark.turns(20)
async def test_everyday_work_prints_what_the_readme_shows(simulated: Command) -> None:
    await simulated.ok("provision", "ada", "--plan", "light")
    await _print_what_is_shown(simulated, EVERYDAY[0])
    [row] = (await simulated.ok("instance", "list", "--json")).json["instances"]
    await delete_behind_its_back(simulated.home / "local" / "world", row["machine_id"])
    await _print_what_is_shown(simulated, EVERYDAY[1])


@pytest.mark.turns(15)
async def test_releases_and_rollouts_print_what_the_readme_shows(simulated: Command) -> None:
    if not (await simulated.ok("instance", "list", "--json")).json["instances"]:
        await simulated.ok("provision", "ada", "--plan", "light")
    await _print_what_is_shown(simulated, blocks_of(RUNBOOKS / "releases-and-rollouts.md")[0])


async def test_environments_and_secrets_print_what_the_readme_shows(tmp_path: Path) -> None:
    command = Command(tmp_path)
    await command.ok("registry", "check")
    await _print_what_is_shown(command, blocks_of(RUNBOOKS / "environments.md")[0])


@pytest.mark.turns(15)
async def test_a_world_with_vendors_prints_what_documents_show(tmp_path: Path) -> None:
    blocks = [block for block in (*README, *EVERYDAY) if "--vendors" in block]
    assert blocks
    for number, block in enumerate(blocks):
        async with local_world(tmp_path / str(number), driver="sim", image=False) as world:
            await world.ok("local", "down")  # a world that is up gets no vendors
            await _print_what_is_shown(world, block)


async def _print_what_is_shown(world: Command, block: str) -> None:
    for words, shown in commands_of(block):
        ran = await world.ok(*words[1:])
        if "chat" in words:
            assert ran.stdout.strip()  # a simulated agent echoes
            continue
        missing = set(normal(shown)) - set(normal(ran.stdout))
        assert not missing, f"{missing} is shown, this was printed:\n{ran}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", document.read_text())
    assert not [link for link in links if "://" not in link and not (document.parent / link).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_that_are_named_exist(document: Path) -> None:
    named = re.findall(r"`hermesops ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", document.read_text())
    pages = {page.stem: page.read_text() for page in (RUNBOOKS / "reference").glob("*.md")}
    assert not [noun for noun, _ in named if noun not in pages]
    nouns = [(noun, verb) for noun, verb in named if verb and f"\n## {noun} " in pages[noun]]
    assert not [f"{noun} {verb}" for noun, verb in nouns if f"\n## {noun} {verb}\n" not in pages[noun]]


def test_folders_of_the_table_exist() -> None:
    rows = re.findall(r"^\| (`.+?`) \|", (RUNBOOKS / "architecture.md").read_text(), flags=re.MULTILINE)
    folders = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(folders) > 30
    assert not [name for name in folders if not (ROOT / name).exists()]
