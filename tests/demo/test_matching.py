from tests.demo.kits import CLAUDE_CODE, CODEX, GEMINI_CLI, OPENCODE, WEATHER, called, obj, string
from tests.tables import every_row

from toolbridge.core.messages import Tool, ToolChoice

TIME = Tool("get_time", "Tells the time.", obj())
SEARCH = Tool("web_search", "Searches the web.", obj(["query"], query=string()))
ADD = Tool("add", "Adds.", obj(["a", "b"], a={"type": "number"}, b={"type": "number"}))
LOOKUP = Tool("lookup", "Gives the temperature somewhere.", obj(["location"], location=string()))
FETCH = Tool("webfetch", "Gets a page.", obj(["url"], url=string()))
OPTIONAL = Tool("find_person", "", obj(name=string(), kind=string(enum=["a", "b"])))
TOOLS = (WEATHER, TIME, SEARCH, ADD, LOOKUP, FETCH, OPTIONAL)


@every_row(
    ("words", "calls"),
    [
        ("What is the weather in Paris?", [("get_weather", {"city": "Paris"})]),
        ("weather in new york today?", [("get_weather", {"city": "new york"})]),
        (
            "What's the weather in Paris and Berlin?",
            [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Berlin"})],
        ),
        (
            "Weather in Paris, France in celsius?",
            [("get_weather", {"city": "Paris, France", "unit": "celsius"})],
        ),
        ("what time is it?", [("get_time", {})]),
        ("search the web for cats", [("web_search", {"query": "cats"})]),
        ("add 3 and 4", [("add", {"a": 3, "b": 4})]),
        ("What is the temperature in Oslo?", [("lookup", {"location": "Oslo"})]),
        ("what is at https://e.org/x", [("webfetch", {"url": "https://e.org/x"})]),
        ("find the person Ada", [("find_person", {"name": "Ada"})]),
        ("call get_weather for Tokyo", [("get_weather", {"city": "Tokyo"})]),
        ("Use the get_time tool.", [("get_time", {})]),
        ("use web_search", [("web_search", {"query": "use web_search"})]),
        ("use lookup", [("lookup", {"location": "Paris"})]),
    ],
)
def test_a_tool_is_called_for_what_it_is_for(words, calls):
    assert called(words, tools=TOOLS) == calls


@every_row("words", ["hello", "Tell me about weather", "Is it raining?", "who are you?", ""])
def test_no_tool_is_called_for_nothing(words):
    assert called(words, tools=TOOLS) == []


@every_row("tools", [CLAUDE_CODE, CODEX, GEMINI_CLI, OPENCODE])
@every_row(
    "words",
    [
        "Explain what an agent is",
        "What is bash?",
        "Please edit my essay about Rome",
        "write a poem about files and tasks",
        "Start a task for Ada and Bob",
        "How do I read a file in Python?",
        "What is a goal of yours?",
    ],
)
def test_talk_about_tools_calls_none(words, tools):
    assert called(words, tools=tools) == []


def test_a_required_call_is_made_in_any_case():
    choice = ToolChoice("required")
    assert called("hello", tools=(WEATHER, TIME), tool_choice=choice) == [
        ("get_weather", {"city": "Paris"})
    ]


def test_a_required_call_still_fits_the_words():
    choice = ToolChoice("required")
    assert called("what time is it?", tools=(WEATHER, TIME), tool_choice=choice) == [
        ("get_time", {})
    ]


def test_a_named_tool_is_called_and_no_other():
    choice = ToolChoice("named", ("get_weather",))
    assert called("what time is it in Rome and Oslo?", tools=TOOLS, tool_choice=choice) == [
        ("get_weather", {"city": "Rome"}),
        ("get_weather", {"city": "Oslo"}),
    ]


def test_a_named_shell_runs_what_was_asked():
    choice = ToolChoice("named", ("Bash",))
    ((name, arguments),) = called("run `ls`", tools=CLAUDE_CODE, tool_choice=choice)
    assert (name, arguments["command"]) == ("Bash", "ls")


def test_a_named_tool_of_the_api_itself_is_not_ours_to_call():
    hosted = Tool("web_search", hosted={"type": "web_search"})
    choice = ToolChoice("named", ("web_search",))
    assert called("search the web", tools=(hosted,), tool_choice=choice) == []


def test_no_call_is_made_where_none_is_allowed():
    choice = ToolChoice("none")
    assert called("What is the weather in Paris?", tools=TOOLS, tool_choice=choice) == []


def test_only_allowed_tools_are_called():
    choice = ToolChoice("auto", ("get_time",))
    assert called("What is the weather in Paris?", tools=TOOLS, tool_choice=choice) == []


def test_freeform_tools_take_plain_words():
    tool = Tool("grammar", "", freeform=True)
    assert called("hi", tools=(tool,), tool_choice=ToolChoice("required")) == [
        ("grammar", {"input": "hi"})
    ]
