"""The tools that the tasks of a probe offer. None of them is ever run."""

from toolbridge.core.json import Json, JsonObject
from toolbridge.core.messages import Tool


def closed_object(required: str, /, **properties: Json) -> JsonObject:
    """Return the schema of an object without other members; `required` are names."""
    names: list[Json] = list(required.split())
    shape: JsonObject = {"type": "object", "properties": dict(properties), "required": names}
    return {**shape, "additionalProperties": False}


TEXT: JsonObject = {"type": "string"}
NUMBER: JsonObject = {"type": "integer"}
WEATHER = Tool(
    "get_weather",
    "Return the current weather of a city.",
    closed_object("city", city=TEXT, unit={"type": "string", "enum": ["celsius", "fahrenheit"]}),
)
READ = Tool("read_file", "Return the content of a file.", closed_object("path", path=TEXT))
WRITE = Tool(
    "write_file",
    "Write a text to a file, and replace the file if it exists.",
    closed_object("path content", path=TEXT, content=TEXT),
)
SEARCH = Tool(
    "search",
    "Search the web and return the titles of pages.",
    closed_object("query", query=TEXT, limit=NUMBER),
)
EVENT = Tool(
    "create_event",
    "Create an event in the calendar.",
    closed_object(
        "title start attendees",
        title=TEXT,
        start=closed_object("date time", date=TEXT, time=TEXT),
        attendees={"type": "array", "items": closed_object("name email", name=TEXT, email=TEXT)},
    ),
)
ORDER = Tool(
    "place_order",
    "Order goods for a customer.",
    closed_object(
        "customer items",
        customer=closed_object(
            "name address", name=TEXT, address=closed_object("street city", street=TEXT, city=TEXT)
        ),
        items={"type": "array", "items": closed_object("sku quantity", sku=TEXT, quantity=NUMBER)},
    ),
)
ALARM = Tool(
    "set_alarm",
    "Set an alarm clock.",
    closed_object(
        "time days options",
        time=TEXT,
        days={
            "type": "array",
            "items": {"type": "string", "enum": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]},
        },
        options=closed_object("repeat volume", repeat={"type": "boolean"}, volume=NUMBER),
    ),
)
TOOLBOX = (WEATHER, READ, WRITE, SEARCH)
