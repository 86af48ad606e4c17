"""`make bench-guard`: fails when a request costs more than 10 % above the committed baseline.

    python -m bench.guard [--calls] [--save]

Two costs are compared with bench/baseline.json: Python calls per request and per delta, which hardly
depend on the machine, and CPU as a ratio to nginx in the same run, which needs an idle machine. Ratios
are compared only with a baseline of the same build of Python and the same model of processor.
`--calls` compares only the calls, in seconds. `--save` (`make bench-baseline`) writes the figures of
this run as the new baseline.
"""

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

from bench import calls, machine, native, plan
from bench.rounds import bad
from bench.scenarios import Scale
from bench.targets import UPSTREAMS

BASELINE = Path(__file__).parent / "baseline.json"
MEASURED_WITH = "ratios measured with"
LIMIT = 1.1
SMALLEST = 0.2
"""The smallest difference that counts: nearly no call per delta is measured as 0 or as a little more."""
RENEW = "make bench-baseline rewrites this file on an idle machine; commit it with the change that moves a figure"
GUARDED = (
    "JSON, plain", "JSON, 15 tools", "stream, plain", "stream, 15 tools", "write, plain",
    "burst chunk", "agent, 48 KB",
)  # fmt: skip
"""Scenarios whose ratio is compared."""
ROUNDS, SCALE = 5, Scale(0.3)


def python() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def ratios() -> dict[str, float]:
    """Return the ratio of toolbridge to nginx for each guarded scenario and upstream API."""
    found: dict[str, float] = {}
    with plan.model_server() as mock:
        for api in UPSTREAMS:
            servers = (plan.reference(mock), plan.toolbridge(api, mock.port))
            with plan.running(*servers) as live:
                if len(live) < len(servers):
                    return {}
                targets = plan.targets_of(live, api)
                for name in GUARDED:
                    row = plan.measured(mock, targets, plan.REQUESTS[name], ROUNDS, SCALE)
                    if wrong := bad(row, f"{api}: {name}"):
                        raise RuntimeError("; ".join(wrong))
                    found[f"{api}: {name}"] = round(row["toolbridge"]["ratio"], 2)
    return found


def worse(found: dict[str, float], baseline: dict[str, float], what: str) -> list[str]:
    """Return a line for each figure of the baseline that is exceeded by more than 10 %, or absent."""
    lines = []
    for name, usual in baseline.items():
        if name not in found:
            lines.append(f"{name}: not measured; the baseline has {usual} {what}")
        elif found[name] > max(usual * LIMIT, usual + SMALLEST):
            more = f", {(found[name] / usual - 1) * 100:.0f} % more" if usual > 0 else ""
            lines.append(f"{name}: {usual} → {found[name]} {what}{more}")
    return lines


def save(found_calls: dict[str, float], found_ratios: dict[str, float]) -> None:
    old = baseline()
    new = {
        "renew": RENEW,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "python": python(),
        "calls": found_calls,
        # Without nginx, or with --calls, the older ratios stay.
        "ratios to nginx": found_ratios or old.get("ratios to nginx", {}),
        MEASURED_WITH: machine.here() if found_ratios else old.get(MEASURED_WITH, {}),
    }
    BASELINE.write_text(json.dumps(new, indent=1) + "\n", "utf-8")
    print(f"wrote {BASELINE}")


def not_comparable() -> list[str]:
    """Return why ratios cannot be compared with those of the baseline; nothing if they can."""
    return machine.differences(baseline().get(MEASURED_WITH, {}), machine.here())


def baseline() -> dict:
    return json.loads(BASELINE.read_text("utf-8")) if BASELINE.exists() else {}


def check(found_calls: dict[str, float], found_ratios: dict[str, float]) -> int:
    usual = baseline()
    if usual["python"] != python():
        print(f"# the baseline was counted with Python {usual['python']}; this is {python()}")
    lines = worse(found_calls, usual["calls"], "calls")
    if found_ratios:
        lines += worse(found_ratios, usual["ratios to nginx"], "× nginx")
    for line in lines:
        print(f"FAILED {line}")
    if lines:
        print(
            "Make it cheaper, or renew the baseline with `make bench-baseline` and give the reason."
        )
    else:
        print(f"{len(found_calls)} counts of calls and {len(found_ratios)} ratios are within 10 %")
    return bool(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", action="store_true", help="only Python calls; seconds")
    parser.add_argument("--save", action="store_true", help="write the baseline")
    args = parser.parse_args()
    native.end_servers_on_sigterm()
    if why := native.missing():
        print(f"bench-guard skipped: {why}")
        return 0
    with_ratios = not args.calls
    if with_ratios and not args.save and (reasons := not_comparable()):
        print("# ratios to nginx are not compared, because they depend on the machine:")
        print("\n".join(f"#   {reason}" for reason in reasons))
        with_ratios = False
    if with_ratios and (load := os.getloadavg()[0]) > 1:
        # Under a load of 10, two runs of the same commit differed by more than 10 % in 6 of 14 ratios.
        print(f"# the machine is busy (load {load:.1f}): its ratios are not reliable")
    found_calls = calls.counted()
    found_ratios = ratios() if with_ratios else {}
    if args.save:
        save(found_calls, found_ratios)
        return 0
    return check(found_calls, found_ratios)


if __name__ == "__main__":
    sys.exit(main())
