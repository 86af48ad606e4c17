"""The names of healing steps.

Users read them: in the `x-toolbridge-healed` header, in the `steps` of `/v1/stream` events, in the
request log, in metrics and in `Healing.steps`. Each name states the change that was made; a step
that concerns one member ends in `: ` and the member's path. docs/reference/healing.md explains every
name with an example, and tests/healing/test_steps.py compares that table with this module.
"""

# Level 1, syntax: text around the JSON and layers of encoding.
TEXT_BEFORE = "text before the JSON removed"
TEXT_AFTER = "text after the JSON removed"
END_TAG = "closing tag removed"
STRING_DECODED = "JSON string decoded"
ENTITIES = "HTML entities decoded"
DOUBLE_ESCAPES = "double escaping removed"
COPIES = "repeated copies removed"
CALL_NOTATION = "function call notation converted"

# Level 1, syntax: brackets and separators.
MISSING_BRACES = "missing braces added"
MISSING_BRACKET = "missing bracket added"
EXTRA_BRACKET = "extra bracket removed"
WRONG_BRACKET = "mismatched bracket corrected"
PARENTHESES = "parentheses replaced"
FULL_WIDTH = "full-width brackets replaced"
RESTARTED = "unfinished object closed"
TRAILING_COMMA = "trailing comma removed"
EXTRA_COMMA = "extra comma removed"
MISSING_COMMA = "missing comma added"
WRONG_SEPARATOR = "separator replaced"
MISSING_COLON = "missing colon added"
WRONG_COLON = "key separator replaced"
COMMENT = "comment removed"
ELLIPSIS = "ellipsis removed"
INVISIBLE = "invisible character removed"
ESCAPED_SPACE = "escaped white space removed"

# Level 1, syntax: members and values.
NO_VALUE = "key without a value removed"
NO_COLON = "key without a colon removed"
SET = "set converted to a list"
MISSING_QUOTES = "missing quotes added"
CLOSING_QUOTE = "missing closing quote added"
SINGLE_QUOTES = "single quotes replaced"
CURLY_QUOTES = "curly quotes replaced"
BACKTICKS = "backticks replaced"
TRIPLE_QUOTES = "triple quotes replaced"
ESCAPED_QUOTES = "backslash before a quote removed"
INNER_QUOTES = "quotes inside a string escaped"
INVALID_ESCAPE = "invalid escape corrected"
CONTROL_CHARACTER = "control character escaped"
JOINED = "concatenated strings joined"
LITERAL = "non-JSON literal replaced"
NUMBER = "non-JSON number rewritten"
NOT_FINITE = "non-finite number replaced by null"
CUT_STRING = "unfinished string closed"
CUT_LITERAL = "unfinished literal completed"
CUT_NUMBER = "unfinished number trimmed"
EMPTY = "empty arguments replaced by {}"

# Level 2, by schema.
MERGED = "several values merged"
OUT_OF_LIST = "object taken out of a list"
OUT_OF_OBJECT = "list taken out of an object"
BY_POSITION = "values assigned by position"
ONLY_PARAMETER = "value assigned to the only parameter"
WRAPPER = "wrapper removed"
KEY = "key renamed"
TOOL_NAME = "tool name corrected"
WRAPPED = "wrapped in a list"
NESTED_JSON = "nested JSON text decoded"
NULL_REMOVED = "null for an optional key removed"
CHOICE = "enum value matched"
TO_STRING = "converted to string"
TO_INTEGER = "converted to integer"
TO_NUMBER = "converted to number"
TO_BOOLEAN = "converted to boolean"
TO_NULL = "converted to null"

# Level 3, guesses.
UNKNOWN_KEY = "unknown key removed"
GUESS = "ambiguous text interpreted"

# Level 0: nothing was changed.
UNREADABLE = "unreadable arguments kept as raw"
CUT_OFF = "cut off"
CUT_BY_LIMIT = "cut off by the token limit"

# Level 1, in answers only.
RESCUED = "read from the engine's error"

# Level 1, in structured streams only (`/v1/stream`).
READ_AS_JSON = "read as JSON"
FOUND_IN_TEXT = "JSON found in the text"
RESERVED_KEY = "reserved key removed"
