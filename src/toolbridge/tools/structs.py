"""Converts tool arguments to the struct that describes them."""

from typing import TypeVar

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.tools.context import InvalidArguments

S = TypeVar("S", bound=msgspec.Struct)


def read_arguments(arguments: JsonObject, shape: type[S]) -> S:
    try:
        return msgspec.convert(arguments, shape)
    except msgspec.ValidationError as error:
        raise InvalidArguments(str(error)) from None
