"""What an agent's user can put into its own home to make whoever reads it wait, run out of something, or be misled."""

_PLANT = r"""
import os, socket, sys

home, entries = sys.argv[1].encode(), @ENTRIES@
names = [
    *(b"new\nline", b"\x1b]52;c;aGk=\x07", b"\xff\xfe\xf0", b"--help", b" ", b"$(id)"),
    *("\u202egnp".encode(), b"a" * 255),
]


def made(path, text=b"x"):
    with open(path, "wb") as file:
        file.write(text)


def trap(place):
    os.makedirs(place, mode=0o700, exist_ok=True)
    os.chdir(place)
    links = {b"zero": b"/dev/zero", b"loop": b"loop", b"out": b"/", b"top": home, b"to-pipe": b"pipe"}
    for link, target in links.items():
        os.symlink(target, link)
    os.mkfifo(b"pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    with open(b"sparse", "wb") as file:
        file.truncate(1 << 40)
    for name in names:
        made(name)
    made(b"closed")
    os.chmod(b"closed", 0)
    os.mkdir(b"closed folder", 0o000)


def dig(place, depth):
    os.chdir(place)
    for _ in range(depth):
        os.mkdir("d" * 50)
        os.chdir("d" * 50)


folders = ["", "memories", "skills/weather", "cron", "pairing", "logs", "sessions", ".hermes-node/kept", "mine"]
for folder in folders:
    trap(os.path.join(home, os.fsencode(folder)))
for folder in (b"", b"memories", b".hermes-node"):
    dig(os.path.join(home, folder), 400)
os.makedirs(os.path.join(home, b"many"))
os.chdir(os.path.join(home, b"many"))
for number in range(entries):
    made(b"%d" % number, b"")
os.chdir(home)
for planted, kind in (
    (b"memories/MEMORY.md", "pipe"),
    (b"skills/weather/SKILL.md", "pipe"),
    (b"kanban.db", "pipe"),
    (b"projects.db", "link"),
    (b"logs/errors.log", "pipe"),
    (b"logs/agent.log", "link"),
    (b".drain_request.json", "link"),
    (b"gateway_state.json", "pipe"),
    (b".hermes-node/work", "link"),
    (b".hermes-node/incoming", "pipe"),
    (b".hermes-node/former", "file"),
):
    try:
        os.unlink(planted)
    except FileNotFoundError:
        pass
    if kind == "pipe":
        os.mkfifo(planted)
    elif kind == "link":
        os.symlink(b"/dev/zero", planted)
    else:
        made(planted)
"""


def plant(*, entries: int) -> str:
    """A program that fills the home it is given with traps, as the user it runs as.

    Args:
        entries: Names in one folder.
    """
    return _PLANT.replace("@ENTRIES@", str(entries))
