"""The parsers that dialects are configured from.

Ten grammars cover all dialects: JSON in tags (tag_json, calls_json), `<function=…>` and
`<invoke name=…>` (parameters, function_xml, invoke_xml, cdata), `<arg_key>` pairs (arg_pairs), a tree
of tags (tag_tree), channels, Gemma's notation (gemma) and Python calls (python_calls). `mark_reader`
finds them in running text; `frames` parses formats that divide the whole answer into messages.
`event_writer` turns what they parse into events.
"""
