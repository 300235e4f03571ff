"""A shell of single commands that remembers its folder; the toolbox has no terminal."""

import shlex

from hermesops.vendor.channel.interface import Channel, Completed

_MARK = "hermesops-folder:"


class Shell:
    """Runs one line after the other on a machine."""

    def __init__(self, channel: Channel, folder: str = "/root") -> None:
        self._channel = channel
        self.folder = folder
        self.last_exit_code = 0

    async def run(self, line: str, *, timeout_s: float = 600) -> Completed:
        """Run a line in the folder and with the exit code (``$?``) of the one before; its ``cd`` holds for the next."""
        # The folder comes after the output, on a line with a mark that no command is likely to print.
        enter = f"cd {shlex.quote(self.folder)} 2>/dev/null; (exit {self.last_exit_code & 0xFF})"
        leave = f'code=$?; printf "\\n%s%s" {_MARK} "$PWD"; exit $code'
        script = f"{enter}\n{line.strip()}\n{leave}"
        done = await self._channel.run(script, timeout_s=timeout_s, binary=True)
        output, mark, folder = done.stdout.rpartition(f"\n{_MARK}".encode())
        if not mark:
            output = done.stdout
        else:
            self.folder = folder.decode(errors="replace") or self.folder
        self.last_exit_code = done.exit_code
        return Completed(done.exit_code, output, done.stderr, done.exact)
