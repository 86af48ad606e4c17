"""`toolbridge serve` that counts the Python functions it calls; `bench/calls.py` starts it.

At SIGUSR1 it writes the count so far, and the counts per function, to the file in its first argument.
"""

import json
import signal
import sys
from collections import Counter
from pathlib import Path

from toolbridge.cli import main

calls: Counter[object] = Counter()


def count(frame, event, _arg):
    if event == "call":
        calls[frame.f_code] += 1


def write(*_):
    sys.setprofile(None)
    found: Counter[str] = Counter()
    for code, number in calls.items():
        name = f"{code.co_filename.rpartition('site-packages/')[2]}:{code.co_qualname}"
        found[name.rpartition("/src/toolbridge/")[2]] += number
    out = Path(sys.argv[1])
    out.with_suffix(".part").write_text(json.dumps(found))
    out.with_suffix(".part").replace(out)
    sys.setprofile(count)


signal.signal(signal.SIGUSR1, write)
sys.setprofile(count)
sys.exit(main(["serve", *sys.argv[2:]]))
