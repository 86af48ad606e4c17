"""Python functions as tools: the signature is the schema, the docstring the description."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import (
    Annotated,
    Any,  # noqa: TID251  msgspec's type for a parameter that takes any JSON value
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec

from toolbridge.core.json import JsonObject
from toolbridge.core.messages import Tool
from toolbridge.tools.context import ToolContext
from toolbridge.wire.json_schema import inline

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Function:
    """A Python function that a model may call. It is still a function: call it as before.

    A parameter of the type `ToolContext` is not in the schema: the registry passes it.
    """

    def __init__(
        self,
        function: Callable[..., object],
        *,
        name: str = "",
        description: str = "",
        timeout: float | None = None,
        idempotent: bool = False,
    ) -> None:
        self._function = function
        self._shape, self._context = _shape_of(function)
        self.timeout = timeout
        self.idempotent = idempotent
        self.tool = Tool(
            name=name or function.__name__,
            description=description or inspect.getdoc(function) or "",
            schema=schema_of(self._shape),
        )

    @property
    def waits(self) -> bool:
        """Whether it is a coroutine function."""
        return inspect.iscoroutinefunction(self._function)

    def __call__(self, *args: object, **named: object) -> object:
        return self._function(*args, **named)

    def read(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return the model's arguments converted to the declared types.

        Raise `msgspec.ValidationError` if they do not fit.
        """
        read = msgspec.convert(dict(arguments), self._shape, strict=False)
        return {field: getattr(read, field) for field in read.__struct_fields__}

    def call(
        self, arguments: Mapping[str, object], context: ToolContext | None = None
    ) -> object | Awaitable[object]:
        """Call it with arguments as the model wrote them."""
        return self.call_read(self.read(arguments), context)

    def call_read(
        self, read: Mapping[str, object], context: ToolContext | None = None
    ) -> object | Awaitable[object]:
        """Call it with arguments that `read` has returned."""
        beside = {self._context: context or ToolContext()} if self._context else {}
        return self._function(**read, **beside)


@overload
def tool(function: Callable[..., object], /) -> Function: ...
@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    timeout: float | None = None,
    idempotent: bool = False,
) -> Callable[[Callable[..., object]], Function]: ...
def tool(
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    timeout: float | None = None,
    idempotent: bool = False,
) -> Function | Callable[[Callable[..., object]], Function]:
    """Make a function a tool; needed only to set a name, a description or limits.

    `timeout` is in seconds. An `idempotent` tool may be run again after a timeout: it only reads, or
    it uses the key of its `ToolContext`.
    """
    if function is not None:
        return Function(function)
    return lambda function: Function(
        function, name=name, description=description, timeout=timeout, idempotent=idempotent
    )


def _shape_of(function: Callable[..., object]) -> tuple[type[msgspec.Struct], str]:
    """Return the parameters of `function` as a struct, and the name of its context parameter.

    msgspec can describe a struct as JSON Schema and convert arguments to it.
    """
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(f"{function.__name__}: {error}") from None
    fields: list[tuple[str, object] | tuple[str, object, object]] = []
    context = ""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        if parameter.kind not in _BY_NAME:
            raise TypeError(
                f"{function.__name__}: {parameter} cannot be passed by name, as models pass arguments"
            )
        if hints.get(parameter.name) is ToolContext:
            context = parameter.name
            continue
        kind = _described(hints.get(parameter.name, Any))
        if parameter.default is inspect.Parameter.empty:
            fields.append((parameter.name, kind))
        else:
            fields.append((parameter.name, kind, _default(parameter.default)))
    return _struct(function.__name__, fields), context


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
    # A mutable default would be shared by all calls; msgspec needs a factory.
    if isinstance(value, list | dict | set):
        return msgspec.field(default_factory=lambda: value)
    return value


def _described(annotation: object) -> object:
    """Return `annotation` with a string in `Annotated` as its description."""
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


def schema_of(shape: type[msgspec.Struct]) -> JsonObject:
    """Return the JSON Schema of `shape` without references."""
    schema, whole = inline(msgspec.json.schema(shape))
    if not whole:  # a recursive type keeps its references
        schema = msgspec.json.schema(shape)
    schema.pop("title", None)
    return schema
