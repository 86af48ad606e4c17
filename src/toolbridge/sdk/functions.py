"""Python functions as tools: the schema from the signature, the description from the docstring."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import (
    Annotated,
    Any,  # noqa: TID251  msgspec's word for a parameter that may be any JSON value
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Call, Result, Text, Tool
from toolbridge.wire.json_schema import inline

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Function:
    """A Python function that a model may call. It is still a function: call it as before."""

    def __init__(
        self, function: Callable[..., object], *, name: str = "", description: str = ""
    ) -> None:
        self._function = function
        self._shape = _shape_of(function)
        self.tool = Tool(
            name=name or function.__name__,
            description=description or inspect.getdoc(function) or "",
            schema=_schema_of(self._shape),
        )

    @property
    def waits(self) -> bool:
        """Whether it is a coroutine function."""
        return inspect.iscoroutinefunction(self._function)

    def __call__(self, *args: object, **named: object) -> object:
        return self._function(*args, **named)

    def call(self, arguments: Mapping[str, object]) -> object | Awaitable[object]:
        """Call it with what a model wrote, as the types that it declares."""
        read = msgspec.convert(dict(arguments), self._shape, strict=False)
        return self._function(**{field: getattr(read, field) for field in read.__struct_fields__})


@overload
def tool(function: Callable[..., object], /) -> Function: ...
@overload
def tool(
    *, name: str = "", description: str = ""
) -> Callable[[Callable[..., object]], Function]: ...
def tool(
    function: Callable[..., object] | None = None, /, *, name: str = "", description: str = ""
) -> Function | Callable[[Callable[..., object]], Function]:
    """Make a function a tool; only needed to give it another name or description."""
    if function is not None:
        return Function(function)
    return lambda function: Function(function, name=name, description=description)


def result_of(call: Call, value: object) -> Result:
    """Return what a function gave back, as the model reads it."""
    return Result(call.id, (Text(_written(value)),), name=call.name)


def failure_of(call: Call, error: Exception) -> Result:
    """Return an exception as a result: the model reads it, and mostly knows what to do."""
    text = f"{type(error).__name__}: {error}"
    return Result(call.id, (Text(text),), is_error=True, name=call.name)


def _written(value: object) -> str:
    if value is None:
        return "done"
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        return str(value)


def _shape_of(function: Callable[..., object]) -> type[msgspec.Struct]:
    """Return the parameters of `function` as a struct, which msgspec can describe and fill."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"{function.__name__}: {error}") from None
    fields: list[tuple[str, object] | tuple[str, object, object]] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        if parameter.kind not in _BY_NAME:
            raise TypeError(
                f"{function.__name__}: a model gives arguments by name, so {parameter} cannot be one"
            )
        kind = _described(hints.get(parameter.name, Any))
        if parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, _default(parameter.default)))
    return _struct(function.__name__, fields)


def _struct(
    name: str, fields: "list[tuple[str, object] | tuple[str, object, object]]"
) -> type[msgspec.Struct]:
    shape: type[msgspec.Struct] = msgspec.defstruct(
        name if name.isidentifier() else "arguments",
        fields,
        kw_only=True,
    )
    return shape


def _default(value: object) -> object:
    # A list as a default is shared by all calls in Python; msgspec wants a way to make one.
    if isinstance(value, list | dict | set):
        return msgspec.field(default_factory=lambda: value)
    return value


def _described(annotation: object) -> object:
    """Return `annotation` with a text beside the type as its description."""
    if get_origin(annotation) is not Annotated:
        return annotation
    kind, *beside = get_args(annotation)
    texts = [text for text in beside if isinstance(text, str)]
    kept = tuple(item for item in beside if isinstance(item, msgspec.Meta))
    if texts:
        kept = (*kept, msgspec.Meta(description=" ".join(texts)))
    for item in kept:
        kind = Annotated[kind, item]
    return kind


def _schema_of(shape: type[msgspec.Struct]) -> JsonObject:
    schema, whole = inline(msgspec.json.schema(shape))
    if not whole:  # a type that contains itself keeps its references
        schema = msgspec.json.schema(shape)
    schema.pop("title", None)
    return schema
