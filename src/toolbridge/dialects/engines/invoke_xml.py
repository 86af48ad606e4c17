"""Anthropic's grammar: `<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>`.

Used with other prefixes and wrappers by MiniMax, dots, Step 3, Muse and DeepSeek's DSML.
"""

# ruff: noqa: RUF001 -- the bars of these marks are fullwidth

from dataclasses import dataclass

from toolbridge.core.lazy_pattern import lazy_pattern
from toolbridge.dialects.engines.event_writer import EventWriter, NotACall
from toolbridge.dialects.engines.parameters import Header, ParameterCalls, tag_end
from toolbridge.wire.tags import Wait

_NAME = lazy_pattern(r"\bname\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'/>]+))")
_STRING = lazy_pattern(r"\bstring\s*=\s*[\"']?(true|false)")
BARS = ("｜", "|", "‖", "｜｜", "||", "‖‖")
"""The bars of DeepSeek's marks and the look-alikes that models write (GenericAgent#804)."""


@dataclass(frozen=True)
class InvokeCalls(ParameterCalls):
    """Parses names from attributes; `string="true"` marks a value as a string (DSML)."""

    def call_header(self, writer: EventWriter) -> Wait[Header]:
        return (yield from self._attributes(writer))

    def parameter_header(self, writer: EventWriter) -> Wait[Header]:
        return (yield from self._attributes(writer))

    def _attributes(self, writer: EventWriter) -> Wait[Header]:
        written = yield from tag_end(writer)
        name = _NAME.search(written)
        if name is None:
            raise NotACall("tag without a name")
        string = _STRING.search(written)
        return Header(
            next(group for group in name.groups() if group is not None).strip(),
            is_text=string.group(1) == "true" if string else None,
            closed=written.rstrip(">").rstrip().endswith("/"),
        )


def invoke_xml(
    wrapper: str, *, prefix: str = "", bare: bool = False, drops_empty: bool = False
) -> InvokeCalls:
    """Return the parser of `<wrapper><prefix:invoke …>`; `wrapper` is a tag name."""
    return InvokeCalls(
        call=(f"<{prefix}invoke",),
        call_close=(f"</{prefix}invoke>",),
        parameter=(f"<{prefix}parameter",),
        parameter_close=(f"</{prefix}parameter>",),
        wrapper=(f"<{wrapper}>",),
        wrapper_close=(f"</{wrapper}>",),
        bare=bare,
        lone=True,
        quotes=True,
        drops_empty=drops_empty,
    )


def dsml(wrapper: str) -> InvokeCalls:
    """Return the parser of DeepSeek's DSML with any of the bars in `BARS`."""
    return InvokeCalls(
        call=tuple(f"<{bar}DSML{bar}invoke" for bar in BARS),
        call_close=tuple(f"</{bar}DSML{bar}invoke>" for bar in BARS),
        parameter=tuple(f"<{bar}DSML{bar}parameter" for bar in BARS),
        parameter_close=tuple(f"</{bar}DSML{bar}parameter>" for bar in BARS),
        wrapper=tuple(f"<{bar}DSML{bar}{wrapper}>" for bar in BARS),
        wrapper_close=tuple(f"</{bar}DSML{bar}{wrapper}>" for bar in BARS),
        bare=False,
    )
