"""How much one frame may hold."""

import msgspec


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes of UTF-8, or levels of nesting."""

    frame: int = 65_536
    depth: int = 16
    arguments: int = 32_768
    result: int = 65_536
    """What a tool may give back."""

    def lowered(self, asked: "Limits") -> "Limits":
        """Return the lower of the two for each: a caller may lower the server's own, not raise it."""
        return Limits(
            frame=min(self.frame, asked.frame),
            depth=min(self.depth, asked.depth),
            arguments=min(self.arguments, asked.arguments),
            result=min(self.result, asked.result),
        )
