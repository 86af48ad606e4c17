"""Ports for servers that cannot choose one themselves, or that must come back on the same one."""

import socket
import sys


class HeldPort:
    """A port of loopback that no other program is given, while a server of the test may use it.

    A port that is merely free now may be given to another test before the server listens on it, or
    while it is stopped. On Linux a socket that is bound and does not listen keeps it: the system gives
    such a port to nobody, and a server that names it and sets SO_REUSEADDR may listen there. Other
    systems would refuse that server, so the port is only chosen there.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]
        if sys.platform != "linux":
            self.close()

    def close(self) -> None:
        self._socket.close()
