"""The page about performance is that of the committed result, and can be written again."""

import json
import re
from xml.etree import ElementTree as ET

import pytest

from bench import bars, report
from bench.chart import chart
from bench.processes import HostTime
from bench.rounds import bad, interleaved, medians, ratio, summary

RESULT = json.loads((report.FOLDER / "performance.json").read_text("utf-8"))
PAGE = (report.FOLDER / "performance.md").read_text("utf-8")


class Named:
    def __init__(self, name):
        self.name = name


TARGETS = [Named("nginx"), Named("toolbridge")]


def host(*shares):
    """Return a clock of the host: it takes `shares`, a share for each measurement."""
    now, at = HostTime(0, 0), []
    for share in shares:
        at += [now, now := HostTime(now.taken + round(1000 * share), now.whole + 1000)]
    return iter(at).__next__


def test_rounds_alternate_between_the_targets():
    order = []

    def measure(target, number):
        order.append((number, target.name))
        return {"bad": 0}

    interleaved(TARGETS, measure, 2, host(0, 0, 0, 0))
    assert order == [(0, "nginx"), (0, "toolbridge"), (1, "toolbridge"), (1, "nginx")]


def test_a_round_that_the_host_disturbed_is_repeated():
    def measure(target, number):
        return {"cost": number, "bad": 0}

    # The order is nginx, toolbridge; toolbridge, nginx; nginx, toolbridge; …
    found = interleaved(TARGETS, measure, 2, host(0, 0, 0, 0.3, 0.02, 0.01))
    assert [r["cost"] for r in found["nginx"]] == [0, 2], "the host took 30 % from nginx in round 1"
    assert [r["taken"] for r in found["toolbridge"]] == [0, 0.01]


def test_where_the_host_never_rests_the_quietest_rounds_count_and_wrong_answers_in_any():
    def measure(target, number):
        return {"cost": number, "bad": number == 1}

    shares = [share for share in (0.3, 0.5, 0.4, 0.1) for _ in TARGETS]
    found = interleaved(TARGETS, measure, 2, host(*shares))
    assert [r["cost"] for r in found["toolbridge"]] == [1, 3]


def test_a_ratio_is_taken_within_each_round():
    # The machine is ten times slower in the second round; the ratio of both targets is not.
    samples = {
        "nginx": [{"cost": 1.0, "bad": 0}, {"cost": 10.0, "bad": 0}, {"cost": 2.0, "bad": 0}],
        "toolbridge": [{"cost": 8.0, "bad": 0}, {"cost": 80.0, "bad": 1}, {"cost": 18.0, "bad": 0}],
    }
    assert ratio(samples, "toolbridge", "nginx") == 8.0
    assert medians(samples["toolbridge"]) == {"cost": 18.0, "bad": 1}
    assert summary(samples)["toolbridge"]["ratio"] == 8.0
    assert "ratio" not in summary({"toolbridge": samples["toolbridge"]})["toolbridge"]


def test_wrong_answers_are_found_at_any_depth():
    found = bad({"ollama": {"JSON": {"nginx": {"bad": 0}, "toolbridge": {"bad": 2}}}}, "gateway")
    assert found == ["gateway / ollama / JSON / toolbridge: 2 wrong answers"]


def test_a_bar_is_reached_from_below_or_from_above():
    low = bars.Bar("x", ("a",), must=4, beyond=2)
    assert [low.reached(value) for value in (2, 3, 4, 4.1)] == ["beyond", "must", "must", "missed"]
    high = bars.Bar("x", ("a",), must=4, beyond=6, higher_is_better=True)
    assert [high.reached(value) for value in (6, 5, 3.9)] == ["beyond", "must", "missed"]
    assert bars.Bar("x", ("a",)).reached(1) == ""


def test_the_page_is_that_of_the_committed_result(tmp_path):
    (tmp_path / "performance.md").write_text(PAGE, "utf-8")
    report.write(RESULT, tmp_path)
    assert (tmp_path / "performance.md").read_text("utf-8") == PAGE
    for name in ("performance.svg", "performance.json"):
        assert (tmp_path / name).read_text("utf-8") == (report.FOLDER / name).read_text("utf-8")


def test_new_figures_replace_the_old_ones_and_nothing_else(tmp_path):
    page = tmp_path / "performance.md"
    page.write_text(f"# Mine\n{report.BEGIN}\nold figures\n{report.END}\nand this\n", "utf-8")
    report.write(RESULT, tmp_path)
    text = page.read_text("utf-8")
    assert "old figures" not in text
    assert text.startswith("# Mine\n")
    assert text.endswith("and this\n")


def test_a_page_without_marks_is_not_written(tmp_path):
    page = tmp_path / "performance.md"
    page.write_text("# Mine\n", "utf-8")
    with pytest.raises(ValueError, match=r"performance\.md does not have the lines"):
        report.write(RESULT, tmp_path)
    assert page.read_text("utf-8") == "# Mine\n"


def test_a_run_on_a_busy_machine_is_named_so():
    about = RESULT["gateway"]["about"]
    busy = report.figures({"gateway": RESULT["gateway"] | {"about": about | {"load_before": 6.0}}})
    assert "The machine was busy" in busy
    calm = {"load_before": 0.1, "load_after": 1.2, "taken_by_host": None}
    idle = report.figures({"gateway": RESULT["gateway"] | {"about": about | calm}})
    assert "The machine was idle" in idle
    assert "Its host took" not in idle, "it is not known"
    taken = report.figures(
        {"gateway": RESULT["gateway"] | {"about": about | {"taken_by_host": 0.3}}}
    )
    assert "Its host took 30 % of the CPU time." in taken


def test_a_share_is_shown_as_a_percentage():
    row = next(bar for bar in bars.OTHER_BARS if bar.name.startswith("disconnections"))
    reached = {api: {"cancel": {"toolbridge": {"reached": 0.9}}} for api in ("ollama",)}
    table = report._table([row], {"gateway": reached}, ("Ollama", "OpenAI chat"))
    assert table.endswith(f"| {row.name} | ≥ 100 % |  | 90 % ✗ | not measured |")


def test_the_chart_is_an_image_with_a_bar_for_each_figure():
    drawn = ET.fromstring(chart(RESULT))
    texts = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    values = [value for bar in bars.NGINX_BARS for value in bar.values(RESULT) if value]
    assert values
    labels = [text for text in texts if re.fullmatch(r"[\d.]+×", text)]
    assert labels == [f"{value:.1f}×" for value in values]
    width = float(drawn.get("width"))
    for box in drawn.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(box.get("x", 0)) + float(box.get("width")) <= width
    for text in drawn.iter("{http://www.w3.org/2000/svg}text"):
        # A letter is narrower than its size.
        long = len(text.text) * float(text.get("font-size")) * 0.6
        assert float(text.get("x")) + long <= width, text.text


def test_a_chart_without_peers_or_figures_is_an_image_too():
    for result in ({"gateway": RESULT["gateway"]}, {"gateway": {}}):
        assert ET.fromstring(chart(result)).tag.endswith("svg")
