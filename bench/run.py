"""`make bench`: the gateway against a model server that is never the bottleneck.

Prints cold start, idle memory, CPU per request, per stream and per write, memory for slow readers
and whether a departure reaches the upstream. With nginx installed, every figure is also a ratio to
nginx passing the same bytes through, measured in the same run; only ratios compare across machines.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
OUT = HERE / "out"
MOCK = 21001
NGINX = """
worker_processes 1; daemon off; master_process off; pid {out}/nginx.pid; error_log {out}/nginx.log;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_body_temp_path {out}/body; proxy_temp_path {out}/proxy;
  fastcgi_temp_path {out}/f; uwsgi_temp_path {out}/u; scgi_temp_path {out}/s;
  upstream mock {{ server 127.0.0.1:{mock}; keepalive 512; }}
  server {{ listen 127.0.0.1:21002;
    location / {{ proxy_pass http://mock; proxy_http_version 1.1; proxy_set_header Connection "";
                  proxy_buffering off; }} }}
}}
"""
CONFIG = """
log = "off"
[map]
default = "mock/m"
[providers.mock]
api = "ollama"
url = "http://127.0.0.1:{mock}"
[models."mock/m"]
window = 65536
"""


def targets() -> list[dict]:
    command = Path(sys.executable).parent / "toolbridge"
    config = OUT / "toolbridge.toml"
    config.write_text(CONFIG.format(mock=MOCK))
    found = [
        {
            "name": "toolbridge",
            "url": "http://127.0.0.1:21010",
            "api": "anthropic",
            "cmd": f"{command} serve --config {config} --port 21010",
            "model": "claude-sonnet-5-5",
        }
    ]
    if shutil.which("nginx"):
        conf = OUT / "nginx.conf"
        conf.write_text(NGINX.format(out=OUT, mock=MOCK))
        nginx = {"name": "nginx", "url": "http://127.0.0.1:21002", "api": "ollama",
                 "cmd": f"nginx -c {conf}", "model": "m"}  # fmt: skip
        found.insert(0, nginx)
    else:
        print("# nginx is not installed: no ratios (apt-get install nginx-light)")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", default="ns64,s50,chunk1,chunkN,slow,cancel")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    specified = targets()
    file = OUT / "targets.json"
    file.write_text(json.dumps(specified))
    harness = [sys.executable, str(HERE / "harness" / "bench.py"), "--targets", str(file),
               "--tests", args.tests, "--rounds", str(args.rounds), "--workdir", str(OUT),
               "--mock-port", str(MOCK), "--json", str(OUT / "result.json")]  # fmt: skip
    if len(specified) > 1:
        harness += ["--base", "nginx"]
    return subprocess.run(
        harness, check=False, env={**os.environ, "OLLAMA_HOST": "127.0.0.1:1"}
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
