"""The files of deploy/ agree with the program: commands, ports, paths, settings."""

import argparse
import asyncio
import configparser
import json
import re
import shlex
import shutil
import subprocess
import textwrap
import tomllib
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from tests.certificates import Authority
from tests.operating import Load, ask, config_for, models, until
from tests.ports import HeldPort
from tests.processes import gateway_process

from toolbridge import config_file
from toolbridge.cli import COMMANDS, key, serve
from toolbridge.config import Config
from toolbridge.environment import models_from, settings_from
from toolbridge.server import routes

pytestmark = pytest.mark.operation

DEPLOY = Path(__file__).parents[2] / "deploy"
PORT = Config().port


def read(name: str) -> str:
    return (DEPLOY / name).read_text("utf-8")


def parsed(words: list[str]) -> argparse.Namespace:
    """Parse a command line of `toolbridge` as the program does."""
    assert words[0] in COMMANDS
    parser = argparse.ArgumentParser(exit_on_error=False)
    serve.arguments(parser)
    assert words[0] == "serve"
    return parser.parse_args(words[1:])


def variables(names: list[str]) -> None:
    """Check that toolbridge reads each of its own variables."""
    for name in (name for name in names if name.startswith("TOOLBRIDGE_")):
        assert settings_from({name: "1"}) or models_from({name: "1"}), name


def unit(name: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    found.optionxform = str
    found.read_string(read(name))
    return found


def test_the_units_of_systemd():
    service, socket = unit("toolbridge.service"), unit("toolbridge.socket")
    command = shlex.split(service["Service"]["ExecStart"])
    assert command[0].endswith("/bin/toolbridge")
    assert parsed(command[1:]).config == Path("/etc/toolbridge/toolbridge.toml")
    assert service["Service"]["ExecReload"].split()[1:] == ["-HUP", "$MAINPID"]
    assert service["Service"]["Type"] == "notify"
    state = Path(service["Service"]["Environment"].removeprefix("XDG_STATE_HOME="))
    assert service["Service"]["StateDirectory"] == "toolbridge"
    assert state == Path("/var/lib")
    assert socket["Socket"]["ListenStream"] == f"127.0.0.1:{PORT}"
    assert socket["Socket"]["FileDescriptorName"] == "http"
    assert int(service["Service"]["TimeoutStopSec"]) > Config().stop_grace + Config().drain_delay


def test_the_command_for_keys_has_the_user_and_the_state_of_the_unit():
    service = unit("toolbridge.service")["Service"]
    guide = (DEPLOY.parent / "docs/guide/team.md").read_text("utf-8")
    [command] = re.findall(r"\$ sudo (systemd-run .*?)\n```", guide, re.DOTALL)
    words = shlex.split(command)
    given = dict(word.split("=", 1) for flag, word in pairwise(words) if flag == "-p")
    assert given == {name: service[name] for name in given}
    assert {"User", "DynamicUser", "StateDirectory", "Environment"} <= given.keys()
    program, *args = words[words.index("/opt/toolbridge/bin/toolbridge") :]
    assert program == service["ExecStart"].split()[0]
    parser = argparse.ArgumentParser(exit_on_error=False)
    key.arguments(parser)
    assert parser.parse_args(args[1:]).name == "alice"
    for flag in (f"-p {name}=" for name in given if name != "EnvironmentFile"):
        assert flag in key._AS_SERVICE


def test_systemd_accepts_the_units(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for name in ("toolbridge.service", "toolbridge.socket"):
        # The program is not installed where the unit expects it.
        text = read(name).replace("/opt/toolbridge/bin/toolbridge", "/bin/true")
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.glob("toolbridge.*")))],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    mine = [line for line in done.stderr.split("\n") if "toolbridge" in line]
    assert (mine, done.returncode) == ([], 0)


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", read("Dockerfile"), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.split("\n") if line.strip()]


def test_the_image():
    made = instructions()
    names = [name for name, _ in made]
    assert set(names) <= {
        "FROM", "ENV", "WORKDIR", "RUN", "COPY", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL",
        "HEALTHCHECK", "ENTRYPOINT", "CMD",
    }  # fmt: skip
    last = max(at for at, name in enumerate(names) if name == "FROM")
    final = made[last:]
    values = dict(final)
    assert values["USER"] == "10001"
    assert values["EXPOSE"] == str(PORT)
    assert values["STOPSIGNAL"] == "SIGTERM"
    assert not [text for name, text in final if name == "RUN" and re.search(r"apt|pip|gcc", text)]
    command = json.loads(values["ENTRYPOINT"]) + json.loads(values["CMD"])
    assert command[0] == "toolbridge"
    parsed(command[1:])
    variables(re.findall(r"\b([A-Z_]+)=", values["ENV"]))
    assert "XDG_STATE_HOME=/var/lib" in values["ENV"]
    assert values["VOLUME"] == "/var/lib/toolbridge"
    check = re.search(r"http://127\.0\.0\.1:(\d+)(/\w+)", values["HEALTHCHECK"])
    assert int(check[1]) == PORT
    assert routes.find(check[2])
    root = DEPLOY.parent
    for name, text in made[:last]:
        if name == "COPY":
            assert all((root / source).exists() for source in text.split()[:-1]), text
    kept = {
        line.removeprefix("!") for line in read("Dockerfile.dockerignore").split() if "!" in line
    }
    copied = {s for n, t in made[:last] if n == "COPY" for s in t.split()[:-1]}
    assert copied <= kept


def test_the_health_check_of_the_image_runs():
    """Against a port where nothing listens it fails, which is what it is for."""
    text = dict(instructions())["HEALTHCHECK"].partition("CMD ")[2]
    words = json.loads(text)
    compile(words[2], "healthcheck", "exec")
    code = words[2].replace(str(PORT), "1")
    done = subprocess.run(["python3", "-c", code], capture_output=True, check=False, timeout=60)
    assert done.returncode != 0


def test_compose():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    found = yaml.safe_load(read("compose.yaml"))
    assert list(found["services"]) == ["gateway", "valkey", "postgres"]
    gateway = found["services"]["gateway"]
    parsed(gateway["command"])
    assert gateway["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    variables(list(gateway["environment"]))
    assert (DEPLOY / gateway["build"]["context"] / gateway["build"]["dockerfile"]).exists()
    volumes = [volume.split(":")[1] for volume in gateway["volumes"]]
    assert volumes == [dict(instructions())["VOLUME"]]
    given = gateway["environment"]
    servers = {"store": given["TOOLBRIDGE_STORE"], "ledger": given["TOOLBRIDGE_LEDGER"]}
    servers = {name: re.sub(r"\$\{[^}]*\}", "secret", url) for name, url in servers.items()}
    assert {urlsplit(url).hostname for url in servers.values()} == {"valkey", "postgres"}
    config_file.read(config_file.ConfigSource(), env={}, flags=servers)
    assert set(gateway["depends_on"]) == {"valkey", "postgres"}


def test_kubernetes(tmp_path):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    parts = {part["kind"]: part for part in yaml.safe_load_all(read("kubernetes.yaml"))}
    assert set(parts) == {"ConfigMap", "PersistentVolumeClaim", "Deployment", "Service"}
    file = tmp_path / "toolbridge.toml"
    file.write_text(parts["ConfigMap"]["data"]["toolbridge.toml"])
    settings = config_file.read(config_file.ConfigSource(file, file.read_bytes()), env={})
    pod = parts["Deployment"]["spec"]["template"]["spec"]
    [gateway] = pod["containers"]
    args = parsed(gateway["args"])
    mounts = {mount["name"]: mount["mountPath"] for mount in gateway["volumeMounts"]}
    assert args.config.parent == Path(mounts["config"])
    assert mounts["state"] == dict(instructions())["VOLUME"]
    volumes = {volume.pop("name"): volume for volume in pod["volumes"]}
    claim = parts["PersistentVolumeClaim"]
    # Keys and the ledger outlive a pod; a disk for one pod is released before the next one starts.
    assert volumes["state"] == {"persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert parts["Deployment"]["spec"]["strategy"] == {"type": "Recreate"}
    assert parts["Deployment"]["spec"]["replicas"] == 1
    assert pod["terminationGracePeriodSeconds"] > settings.drain_delay + settings.stop_grace
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        get = gateway[probe]["httpGet"]
        assert get["port"] == gateway["ports"][0]["name"]
        assert routes.find(get["path"])
    assert gateway["livenessProbe"]["httpGet"]["path"] == "/livez", "a drain must not be a restart"
    assert gateway["ports"][0]["containerPort"] == PORT
    assert parts["Service"]["spec"]["ports"][0]["port"] == PORT
    assert str(pod["securityContext"]["runAsUser"]) == dict(instructions())["USER"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert tomllib.loads(file.read_text())


def test_the_settings_that_nginx_repeats():
    text = read("nginx.conf")
    assert f"server 127.0.0.1:{PORT} " in text
    assert f"client_max_body_size {Config().max_body // 2**20}m;" in text
    kept = int(re.search(r"keepalive_timeout (\d+)s", text)[1])
    assert kept < Config().http.idle_timeout


@pytest.fixture
def nginx(tmp_path):
    if (found := shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")) is None:
        pytest.skip("nginx is not installed")
    running: list[subprocess.Popen] = []
    held: list[HeldPort] = []
    folder = tmp_path / "nginx"
    folder.mkdir()

    def start(*ports: int) -> tuple[str, Path]:
        """Run nginx with deploy/nginx.conf, in front of `ports`; return its URL and the root."""
        authority = Authority(tmp_path)
        cert, key, _ = authority.issue("nginx")
        held.append(HeldPort())
        own = held[-1].number
        servers = "\n".join(
            f"server 127.0.0.1:{port} max_fails=2 fail_timeout=5s;" for port in ports
        )
        text = read("nginx.conf").replace("listen 8443 ssl", f"listen 127.0.0.1:{own} ssl")
        text = text.replace("/etc/toolbridge/fullchain.pem", str(cert))
        text = text.replace("/etc/toolbridge/privkey.pem", str(key))
        text = text.replace(f"server 127.0.0.1:{PORT} max_fails=2 fail_timeout=5s;", servers)
        (folder / "toolbridge.conf").write_text(text)
        paths = "".join(
            f"{kind}_temp_path {folder}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (folder / "nginx.conf").write_text(
            f"daemon off; pid {folder}/pid; error_log {folder}/error.log;\n"
            "worker_processes 1; events { worker_connections 512; }\n"
            f"http {{ access_log off;\n{paths} include {folder}/toolbridge.conf; }}\n"
        )
        command = [found, "-p", str(folder), "-c", str(folder / "nginx.conf")]
        if not running:
            tested = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False)
            assert tested.returncode == 0, tested.stderr
        running.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        return f"https://127.0.0.1:{own}", authority.file

    yield start
    for process in running:
        process.terminate()
        process.wait(60)
    for port in held:
        port.close()


async def test_streams_arrive_event_by_event_through_nginx(tmp_path, nginx):
    import ssl

    async with models("m") as [(gate, server)]:
        async with gateway_process(tmp_path, config_for(server)) as process:
            url, root = nginx(int(process.url.rpartition(":")[2]))
            context = ssl.create_default_context(cafile=root)
            connector = aiohttp.TCPConnector(ssl=context)
            async with aiohttp.ClientSession(connector=connector) as session:
                await _answers(session, url)
                gate.open.clear()
                body = {
                    "model": "x",
                    "stream": True,
                    "messages": [{"role": "user", "content": "x"}],
                }
                async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
                    seen = b""
                    while b"m " not in seen:  # the model has not ended yet
                        seen += await answer.content.readany()
                    gate.open.set()
                    seen += await answer.content.read()
                assert seen.rstrip().endswith(b"[DONE]")
                ws = f"{url.replace('https', 'wss')}/v1/stream/ws"
                async with session.ws_connect(ws) as socket:
                    await socket.send_str('{"prompt": "x"}')
                    assert (await socket.receive()).data


async def test_three_gateways_behind_nginx_are_replaced_one_after_the_other(tmp_path, nginx):
    import os
    import signal
    import ssl
    from contextlib import AsyncExitStack

    async with models("m") as [(_, server)], AsyncExitStack() as stack:
        config_text = config_for(server, "drain_delay = 3.0", 'log = "off"')
        gateways = [
            await stack.enter_async_context(gateway_process(tmp_path / name, config_text))
            for name in "abc"
        ]
        url, root = nginx(*(int(one.url.rpartition(":")[2]) for one in gateways))
        context = ssl.create_default_context(cafile=root)
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            await _answers(session, url)
        load = Load(url, 3, keep_alive=True, ssl=context)
        for gateway in gateways[:2]:
            before = load.done
            await until(lambda before=before: load.done > before + 15)
            os.kill(gateway.pid, signal.SIGTERM)
        before = load.done
        await until(lambda: load.done > before + 30)
        await load.end()
        assert load.failed == []


async def _answers(session: aiohttp.ClientSession, url: str) -> None:
    """Wait until nginx serves."""
    for _ in range(600):
        try:
            assert await ask(url, session) == "m end"
            return
        except (aiohttp.ClientError, AssertionError):
            await asyncio.sleep(0.1)
    raise AssertionError(textwrap.dedent("nginx did not answer"))
