"""What an answer has used: the provider's counts, or an estimate where they are missing.

A provider reports usage when an answer ends. An answer that breaks off, whose client leaves, or
whose provider reports nothing is estimated, so that budgets and the ledger do not lose it.
"""

import msgspec

from toolbridge.core.fold import written_length
from toolbridge.core.messages import Message
from toolbridge.core.usage import Usage

_CHARACTERS_PER_TOKEN = 4


def spent(message: Message, prompt_tokens: int) -> tuple[Usage, bool]:
    """Return the usage of an answer, and whether it is estimated."""
    reported = message.usage
    ended = message.problem is None and message.stop not in {None, "error", "aborted"}
    if ended and reported.output:
        return reported, False
    written = sum(
        written_length(part) for one in (message, *message.alternatives) for part in one.content
    )
    if ended and reported.total and not written:  # an embedding, or an empty answer
        return reported, False
    if not ended and not written and not reported.total:
        return reported, False  # it failed before it began
    return spent_so_far(reported, written, prompt_tokens), True


def spent_so_far(reported: Usage, written: int, prompt_tokens: int) -> Usage:
    """Return the estimate for an answer that has `written` characters and has not ended."""
    return msgspec.structs.replace(
        reported,
        input=reported.input if reported.input_total else prompt_tokens,
        output=max(reported.output, -(-written // _CHARACTERS_PER_TOKEN)),
    )


def with_output(message: Message) -> Message:
    """Return a complete answer with its output tokens, estimated if the provider counted none.

    The input stays as it was reported: the setting `counting` chooses how it is counted for clients.
    """
    output = message.usage.output or spent(message, 0)[0].output
    if output == message.usage.output:
        return message
    return msgspec.structs.replace(
        message, usage=msgspec.structs.replace(message.usage, output=output)
    )
