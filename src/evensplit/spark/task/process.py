"""What a Python process of Spark needs so that none waits for another: its sockets, and its garbage collector."""

from __future__ import annotations

import gc
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

_DESCRIPTORS = Path("/proc/self/fd")
_LOOPBACK = ("127.", "::1", "::ffff:127.")


def acknowledge_at_once() -> None:
    """Acknowledge what Spark has sent so far, and from now on send without waiting for acknowledgements.

    Spark writes a task in two parts: what is to be run, and its partition. The kernel keeps the second one back until
    the first one is acknowledged (Nagle, RFC 896), and that happens 40 ms later, since a worker has nothing to say
    before it has both (delayed acknowledgements, RFC 1122). To be called between the two: the kernel goes back to
    delaying by itself. Which socket is Spark's, nothing tells, so it holds for all that are connected within this
    machine. Does nothing where Spark uses Unix sockets, or on other systems than Linux; never raises.
    """
    if hasattr(socket, "TCP_QUICKACK"):
        # There may be no such directory, or no right to read it.
        with suppress(OSError):
            for one in _DESCRIPTORS.iterdir():
                # Closed meanwhile, or not connected: no socket that Spark waits at.
                with suppress(OSError):
                    _acknowledge(int(one.name))


def _acknowledge(descriptor: int) -> None:
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        return
    copy, blocks = os.dup(descriptor), os.get_blocking(descriptor)
    try:
        found = socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        return
    with found:
        # Python has just changed it, for both of them, where sockets have a timeout by default.
        os.set_blocking(descriptor, blocks)
        if _is_local(found):
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def _is_local(found: socket.socket) -> bool:
    if found.family not in (socket.AF_INET, socket.AF_INET6) or found.type is not socket.SOCK_STREAM:
        return False
    return str(found.getpeername()[0]).startswith(_LOOPBACK)


class Collections:
    """Spares a worker the walk through all that it has loaded: Spark has it collect garbage after every task."""

    def __init__(self) -> None:
        self._tasks = 0

    def begin_task(self) -> None:
        """Set aside all objects that are there when the second task begins, once.

        By then everything is loaded, and Spark has just had the garbage of the first task collected. What is made
        later is collected as ever.
        """
        self._tasks += 1
        if self._tasks == 2:
            gc.freeze()


COLLECTIONS = Collections()
"""Those of this process."""
