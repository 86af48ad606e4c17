"""`make bench`: what toolbridge costs, as ratios to nginx that forwards the same bytes in the same run.

    python -m bench.run [gateway] [peers] [--quick] [--docs] [--only TEXT]

`gateway` (the default) measures toolbridge, `peers` other gateways beside it. The figures are
printed and written to build/bench/result.json; `--docs` also rewrites the table and the chart of
docs/explain/performance.md. An answer that is not complete and right makes the run fail.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from bench import machine, native, peers, plan, report
from bench.processes import HostTime
from bench.rounds import bad

RESULT = native.OUT / "result.json"
LOADS = {
    ("gateway", False): "A full run",
    ("gateway", True): "A quick run (a tenth of the load, 200 paced streams)",
    ("peers", False): "A full run (a tenth of the load, because of the slowest gateway)",
    ("peers", True): "A quick run (3 % of the load)",
}
ROOT = Path(__file__).parents[1]


def about(kind: str, rounds: int, before: tuple[float, HostTime]) -> dict:
    """Return where and when the figures were measured."""
    nginx = subprocess.run("nginx -v", shell=True, capture_output=True, text=True, check=False,
                           env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin"})  # fmt: skip
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    load_before, host_before = before
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cores": os.cpu_count(),
        "memory_gb": round(memory),
        "processor": machine.processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "load_before": round(load_before, 1),
        "load_after": round(os.getloadavg()[0], 1),
        "taken_by_host": round(HostTime.now().share_since(host_before), 3),
        "kind": kind,
        "rounds": rounds,
        "versions": {
            "toolbridge": f"{version('toolbridge')} ({commit.stdout.strip() or 'no commit'})",
            "Python": f"{platform.python_version()} ({machine.build()})",
            "nginx": nginx.stderr.strip().rpartition("/")[2] or "absent",
            "uvloop": version("uvloop"),
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", choices=[[], "gateway", "peers"], default=[], metavar="PART"
    )
    parser.add_argument("--quick", action="store_true", help="less load and fewer rounds: minutes")
    parser.add_argument("--docs", action="store_true", help="rewrite docs/explain/performance.md")
    parser.add_argument("--only", default="", help="scenarios whose names contain this text")
    args = parser.parse_args()
    native.end_servers_on_sigterm()
    if why := native.missing():
        print(f"skipped: {why}")
        return 0
    parts = args.parts or ["gateway"]
    if why := plan.unknown(args.only, parts):
        parser.error(why)
    size = plan.QUICK if args.quick else plan.FULL
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    load = os.getloadavg()[0]  # the second part begins with the load that the first one made
    for part in parts:
        before = load, HostTime.now()
        if part == "gateway":
            found, rounds = plan.gateway(size, args.only), size.rounds
        else:
            found, rounds = plan.with_peers(size, args.only), size.long_rounds
        result[part] = {"about": about(LOADS[part, args.quick], rounds, before), **found}
    if "peers" in parts:
        result["peers"]["about"]["versions"] |= peers.versions()
    if not args.only:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    wrong = [fault for part in parts for fault in bad(result[part], part)]
    for fault in wrong:
        print(f"FAILED {fault}")
    if args.docs and not wrong and not args.only:
        report.write(result)
    elif args.docs:
        print(
            "docs/explain/performance.md is unchanged: it needs a whole run without wrong answers"
        )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
