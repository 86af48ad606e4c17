"""Qwen3-Coder's grammar: `<function=NAME><parameter=KEY>VALUE</parameter></function>`."""

from toolbridge.dialects.engines.parameters import ParameterCalls


def function_xml(
    wrapper: str = "<tool_call>", wrapper_close: str = "</tool_call>", *, newlines: bool = True
) -> ParameterCalls:
    """Return the parser for this grammar inside `wrapper`."""
    return ParameterCalls(
        call=("<function=",),
        call_close=("</function>",),
        parameter=("<parameter=",),
        parameter_close=("</parameter>",),
        wrapper=(wrapper,),
        wrapper_close=(wrapper_close,),
        newlines=newlines,
    )
