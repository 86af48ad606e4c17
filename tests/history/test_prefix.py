"""What changes though nobody said anything new."""

import pytest
from tests.tables import every_row

from toolbridge.core.messages import Text
from toolbridge.history.prefix import strip_volatile

LINE = "x-anthropic-billing-header: cc_version=2.1.325.abc; cc_entrypoint=cli;"


@pytest.mark.req("CL-11")
@every_row(
    ("system", "kept"),
    [
        ((Text(LINE), Text("You are.", cache="5m")), (Text("You are.", cache="5m"),)),
        ((Text(f"{LINE}\nYou are."),), (Text("You are."),)),
        ((Text(f"{LINE}\n \n"),), ()),
        ((Text("You are."), Text(f"say {LINE}")), (Text("You are."), Text(f"say {LINE}"))),
        ((), ()),
    ],
)
def test_the_billing_line_goes_and_nothing_else(system, kept):
    assert strip_volatile(system) == kept
