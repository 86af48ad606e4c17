"""The limits of frames, tool arguments and tool results."""

import msgspec


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits in bytes of UTF-8, or in levels of nesting."""

    frame: int = 65_536
    depth: int = 16
    arguments: int = 32_768
    result: int = 65_536
    """Bytes of a tool's result."""

    def lowered(self, asked: "Limits") -> "Limits":
        """Return the lower of each limit: a caller may lower the server's limits, not raise them."""
        return Limits(
            frame=min(self.frame, asked.frame),
            depth=min(self.depth, asked.depth),
            arguments=min(self.arguments, asked.arguments),
            result=min(self.result, asked.result),
        )
