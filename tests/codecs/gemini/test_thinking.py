from tests.tables import every_row

from toolbridge.codecs.gemini.quirks import Quirks
from toolbridge.codecs.gemini.thinking import encode_thinking
from toolbridge.core.messages import Think

LEVEL = Quirks()
BUDGET = Quirks(thinking_style="budget")
PRO = Quirks(thinking_style="budget", least_budget=128, most_budget=32_768)
NO_MINIMAL = Quirks(thinking_levels=("LOW", "MEDIUM", "HIGH"))
SHOWN = {"includeThoughts": True}


def level(name):
    return {"thinkingLevel": name}


def budget(tokens):
    return {"thinkingBudget": tokens}


@every_row(
    ("quirks", "think", "config", "lost"),
    [
        (LEVEL, Think(), {}, []),
        (LEVEL, Think("on"), SHOWN, []),
        (LEVEL, Think("auto"), SHOWN, []),
        (LEVEL, Think("auto", show="omitted"), {"includeThoughts": False}, []),
        (LEVEL, Think("auto", show="full"), SHOWN, ["think.show"]),
        (LEVEL, Think("unset", effort="low"), level("LOW"), []),
        (LEVEL, Think("unset", show="summarized"), SHOWN, []),
        (LEVEL, Think("between_tools"), SHOWN, ["think.mode"]),
        (LEVEL, Think("on", effort="minimal"), level("MINIMAL") | SHOWN, []),
        (LEVEL, Think("on", effort="high"), level("HIGH") | SHOWN, []),
        (LEVEL, Think("on", effort="max"), level("HIGH") | SHOWN, ["think.effort"]),
        (LEVEL, Think("on", 500), level("LOW") | SHOWN, ["think.budget"]),
        (LEVEL, Think("on", 5_000), level("MEDIUM") | SHOWN, ["think.budget"]),
        (LEVEL, Think("on", 50_000), level("HIGH") | SHOWN, ["think.budget"]),
        (LEVEL, Think("on", 50_000, "low"), level("LOW") | SHOWN, ["think.budget"]),
        (LEVEL, Think("off"), level("MINIMAL"), ["think.mode"]),
        (LEVEL, Think("unset", effort="none"), level("MINIMAL"), ["think.mode"]),
        (NO_MINIMAL, Think("off"), level("LOW"), ["think.mode"]),
        (NO_MINIMAL, Think("on", effort="minimal"), level("LOW") | SHOWN, ["think.effort"]),
        (BUDGET, Think("on"), budget(-1) | SHOWN, []),
        (BUDGET, Think("auto"), budget(-1) | SHOWN, []),
        (BUDGET, Think("off"), budget(0), []),
        (BUDGET, Think("on", 2_000), budget(2_000) | SHOWN, []),
        (BUDGET, Think("on", 90_000), budget(24_576) | SHOWN, ["think.budget"]),
        (BUDGET, Think("on", effort="medium"), budget(8_192) | SHOWN, ["think.effort"]),
        (BUDGET, Think("on", effort="max"), budget(24_576) | SHOWN, ["think.effort"]),
        (BUDGET, Think("unset", show="summarized"), SHOWN, []),
        (PRO, Think("off"), budget(128), ["think.mode"]),
        (PRO, Think("on", 64), budget(128) | SHOWN, ["think.budget"]),
        (Quirks(thinking_style="none"), Think("on"), {}, ["think"]),
    ],
)
def test_thinking_is_asked_for_as_the_model_takes_it(quirks, think, config, lost):
    losses = []
    found = encode_thinking(think, quirks, lambda what, _: losses.append(what))
    assert found == config
    assert losses == lost
