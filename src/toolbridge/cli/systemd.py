"""Messages to systemd about the state of the service (sd_notify(3)); none without systemd."""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress


def notify(*lines: str, env: Mapping[str, str] = os.environ) -> None:
    """Send the assignments `lines`, such as `READY=1`, to the socket in `NOTIFY_SOCKET`."""
    address = env.get("NOTIFY_SOCKET", "")
    if not address or not hasattr(socket, "AF_UNIX"):
        return
    if address.startswith("@"):  # the abstract namespace of Linux
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto("\n".join(lines).encode(), address)
