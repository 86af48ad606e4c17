"""Real Redis and PostgreSQL servers on loopback, in a temporary folder, for tests and benchmarks."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from tests.ports import HeldPort

WAIT = 60.0


def redis_program() -> str | None:
    return shutil.which("valkey-server") or shutil.which("redis-server")


def postgres_programs() -> Path | None:
    """Return the folder of `initdb` and `postgres`; Debian does not have it in the path."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


class RedisProcess:
    """A server with a password, a port and a socket."""

    password = "a-pass/word:1"

    def __init__(self, *, durable: bool = True, tls: tuple[Path, Path] | None = None) -> None:
        self._durable = durable
        self._tls = tls
        """The certificate chain and its key, for a server that accepts only TLS."""
        self.folder = Path(tempfile.mkdtemp(prefix="tb-redis-"))
        self._held = HeldPort()
        self.port = self._held.number
        self.socket = self.folder / "s"
        self._process: subprocess.Popen | None = None
        self.start()

    @property
    def url(self) -> str:
        scheme = "rediss" if self._tls else "redis"
        return f"{scheme}://:a-pass%2Fword%3A1@127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                *(redis_program(), *self._port(), "--bind", "127.0.0.1"),
                *("--unixsocket", str(self.socket), "--dir", str(self.folder)),
                *("--requirepass", self.password, "--appendonly", "yes"),
                *("--appendfsync", "always" if self._durable else "everysec"),
                *("--save", "", "--logfile", str(self.folder / "log")),
            ],
            stdout=subprocess.DEVNULL,
        )
        _until_open(self.port)

    def _port(self) -> list[str]:
        if self._tls is None:
            return ["--port", str(self.port)]
        chain, key = map(str, self._tls)
        files = ["--tls-cert-file", chain, "--tls-key-file", key, "--tls-ca-cert-file", chain]
        return ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no", *files]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def lose_data(self) -> None:
        """Restart with an empty folder."""
        self.kill()
        shutil.rmtree(self.folder / "appendonlydir")
        self.start()

    def close(self) -> None:
        self.resume()
        self.kill()
        self._held.close()
        shutil.rmtree(self.folder)


class PostgresProcess:
    """A server with a password and a database."""

    password = "pg-pass/word"

    def __init__(self) -> None:
        self._bin = postgres_programs()
        self.folder = Path(tempfile.mkdtemp(prefix="tb-postgres-"))
        self._held = HeldPort()
        self.port = self._held.number
        self._as_user = _as_another_user(self.folder)
        secret = self.folder / "secret"
        secret.write_text(self.password)
        secret.chmod(0o644)
        self._run(
            *("initdb", "-D", str(self.folder / "data"), "-U", "team", "--pwfile", str(secret)),
            *("-A", "scram-sha-256", "-E", "UTF8", "--no-sync"),
        )
        self._process: subprocess.Popen | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://team:pg-pass%2Fword@127.0.0.1:{self.port}/postgres"

    def _run(self, program: str, *args: str) -> None:
        subprocess.run(
            [*self._as_user, str(self._bin / program), *args],
            cwd=self.folder, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(*self._as_user, str(self._bin / "postgres"), "-D", str(self.folder / "data")),
                    *("-p", str(self.port), "-c", "listen_addresses=127.0.0.1"),
                    *("-c", f"unix_socket_directories={self.folder}", "-c", "fsync=off"),
                ],
                cwd=self.folder, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        until = time.monotonic() + WAIT
        command = [str(self._bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        while subprocess.run(command, check=False).returncode:
            assert time.monotonic() < until, (self.folder / "log").read_text()
            time.sleep(0.05)

    def _signal(self, number: int) -> None:
        """Send a signal to the server and to the processes of its connections."""
        with suppress(ProcessLookupError):
            for child in _children(self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(child, number)
            self._process.send_signal(number)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGQUIT)  # "immediate shutdown" of PostgreSQL
        self._process.wait()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        self.resume()
        self.kill()
        self._held.close()
        shutil.rmtree(self.folder)


def _as_another_user(folder: Path) -> list[str]:
    """Return the start of a command line for a program that refuses to run as root."""
    if os.geteuid() != 0:
        return []
    mapped = ["unshare", "--user", "--map-user=1000", "--map-group=1000"]
    if shutil.which("unshare") and not subprocess.run([*mapped, "true"], check=False).returncode:
        return mapped
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = "postgres" if "postgres" in names else "nobody"
    shutil.chown(folder, user)
    return ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


def _until_open(port: int) -> None:
    until = time.monotonic() + WAIT
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)
