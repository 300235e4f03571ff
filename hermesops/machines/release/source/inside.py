"""The first program behind the walls: unpacks standard input and becomes the program that is wanted.

Usage: ``python -I -S -c THIS PLACE PROGRAM [ARGUMENT …]``. Standard library only.
"""

import os
import sys
import tarfile


def main() -> None:
    """Unpack the files into the place, then run the program in its folder ``source``."""
    place, program, *arguments = sys.argv[1:]
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as archive:
        for member in archive:  # packed by hermesops, of files alone
            archive.extract(member, place)
    os.makedirs(os.path.join(place, "source"), exist_ok=True)  # noqa: PTH103, PTH118 - pathlib would cost an import
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.chdir(os.path.join(place, "source"))  # noqa: PTH118 - pathlib would cost an import
    os.execv(program, [program, *arguments])  # noqa: S606 - replaces this process on purpose


if __name__ == "__main__":
    main()
