"""The build of Python and the processor that figures were measured with.

A ratio of CPU times compares a program that Python runs with one in C, so it depends on both: between
two machines, or two builds of the same version, ratios differ by up to 1.8 times.
"""

import platform
import sysconfig
from pathlib import Path


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def build() -> str:
    """Return how this Python was compiled."""
    # Debian runs the profile-guided build by hand, so it is not in the arguments of `configure`.
    debian = "deb_system" in sysconfig.get_scheme_names()
    return described(str(sysconfig.get_config_var("CONFIG_ARGS") or ""), debian=debian)


def described(arguments: str, *, debian: bool = False) -> str:
    """Return the name of a build with these arguments of `configure`."""
    if debian:
        return "Debian's optimized build"
    return "optimized build" if "--enable-optimizations" in arguments else "plain build"


def here() -> dict[str, str]:
    """Return what a ratio depends on besides the program."""
    return {
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "build": build(),
        "processor": processor(),
    }


def differences(then: dict[str, str], now: dict[str, str]) -> list[str]:
    """Return a line for each thing that was another when `then` was written, or was not noted."""
    return [
        f"{name}: {then.get(name, 'not known')} in the baseline, {value} here"
        for name, value in now.items()
        if then.get(name) != value
    ]
