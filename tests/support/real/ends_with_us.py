"""Servers that a run starts end with it, also when it is killed and no fixture closes them.

The kernel sends the signal when the thread that started the process ends (``PR_SET_PDEATHSIG``, prctl(2)), so these
prefixes are for servers that the main thread of a test process starts.
"""

KILLED = ("setpriv", "--pdeathsig", "KILL", "--")
"""Before a server's command: SIGKILL once its starter is gone."""

INTERRUPTED = ("setpriv", "--pdeathsig", "INT", "--")
"""Before the command of a server that has to clean up (PostgreSQL removes its shared memory): SIGINT."""
