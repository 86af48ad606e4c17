from tests.tables import every_row

from toolbridge.demo.intent import ListFiles, ReadFile, RunCommand, WriteFile, read_intents

WRITES = [
    ("create hello.txt saying hi", "hello.txt", "hi"),
    ("Create hello.txt saying hi.", "hello.txt", "hi"),
    (
        "Create the file /w/hello.txt with exactly this content: hello from gateway",
        "/w/hello.txt",
        "hello from gateway",
    ),
    ('Create /w/a.txt with exactly this content: "quoted words"', "/w/a.txt", "quoted words"),
    ("write a file notes.md containing buy milk", "notes.md", "buy milk"),
    ("make a file called x with some words", "x", "some words"),
    ("make a file called x with the text hello there", "x", "hello there"),
    ('Please create a text file named "my notes.txt" that says "a b".', "my notes.txt", "a b"),
    ("write 'hi there' to out.txt", "out.txt", "hi there"),
    ("save hello world into /tmp/a/b.txt", "/tmp/a/b.txt", "hello world"),
    ("put hi in hello.txt", "hello.txt", "hi"),
    ("create an empty file x.txt", "x.txt", ""),
    ("create hello.txt", "hello.txt", ""),
    ("Can you create hello.py that prints hello?", "hello.py", 'print("hello")'),
    ("create note.txt that prints hello", "note.txt", "hello"),
    ("Use the WriteFile tool to create hello.txt saying hi", "hello.txt", "hi"),
    ("create hello.txt in /tmp/foo with hi", "/tmp/foo/hello.txt", "hi"),
    ("create hello.txt in the current directory saying hi", "hello.txt", "hi"),
    ("In /tmp/foo, create hello.txt saying hi", "/tmp/foo/hello.txt", "hi"),
    ("In the current directory, create hello.txt saying hi", "hello.txt", "hi"),
    ("In src, create /abs/hello.txt saying hi", "/abs/hello.txt", "hi"),
    ("Create hello.txt. Its content should be: hi", "hello.txt", "hi"),
    ("Create a file with the content hi at /tmp/x.txt", "/tmp/x.txt", "hi"),
    ("create a file containing hi called x.txt", "x.txt", "hi"),
    ('create hello.txt saying "hi" and nothing else', "hello.txt", "hi"),
    ("create hello.txt saying hi. Use the shell.", "hello.txt", "hi"),
    ("create a.txt with content: b: c, then run ls", "a.txt", "b: c, then run ls"),
    ("create a.md with this content:\n```md\n# A\nb\n```", "a.md", "# A\nb\n"),
    ("create a.txt saying wait...", "a.txt", "wait..."),
]


@every_row(("words", "path", "content"), WRITES)
def test_a_file_is_written_however_it_is_said(words, path, content):
    assert read_intents(words) == [[WriteFile(path, content)]]


@every_row(
    ("words", "intent"),
    [
        ("run `ls -la`", RunCommand("ls -la")),
        ("run ```bash\nmake test\n```", RunCommand("make test")),
        ("execute: pwd", RunCommand("pwd")),
        ("run: echo hi", RunCommand("echo hi")),
        ("run the command echo hi and tell me what it says", RunCommand("echo hi")),
        ("run pytest -q", RunCommand("pytest -q")),
        ('please run echo "a b"', RunCommand('echo "a b"')),
        ("create a directory foo", RunCommand("mkdir -p foo")),
        ("read /x/y.txt", ReadFile("/x/y.txt")),
        ("show me README.md", ReadFile("README.md")),
        ("show me the contents of README.md", ReadFile("README.md")),
        ("what is in notes.md?", ReadFile("notes.md")),
        ("cat Makefile", ReadFile("Makefile")),
        ("In docs/, read guide.md", ReadFile("docs/guide.md")),
        ("list files", ListFiles(".")),
        ("ls", ListFiles(".")),
        ("list the files in src", ListFiles("src")),
        ("list the files in the current directory", ListFiles(".")),
        ("what files are in /tmp?", ListFiles("/tmp")),
        ("show me the files in ./docs", ListFiles("./docs")),
    ],
)
def test_commands_and_reads_are_understood(words, intent):
    assert read_intents(words) == [[intent]]


@every_row(
    "words",
    [
        "",
        "hello",
        "I tried to make it work but app.py fails",
        "make app.py faster",
        "How do I create hello.txt saying hi?",
        "WriteFile a function that reads config.json and prints it",
        "Make sure that hello.txt exists",
        "write a poem about the sea",
        "create a website",
        "run the tests",
        "run",
        "list the planets",
        "Which folder should I use for tests?",
        "read a book",
        "show me example.com",
    ],
)
def test_nothing_is_done_that_was_not_asked(words):
    assert read_intents(words) == []


def test_then_begins_another_step():
    assert read_intents("create a.txt saying x, then read a.txt. Then list the files.") == [
        [WriteFile("a.txt", "x")],
        [ReadFile("a.txt")],
        [ListFiles(".")],
    ]


def test_two_files_are_one_step():
    assert read_intents("create a.txt saying x and b.txt saying y") == [
        [WriteFile("a.txt", "x"), WriteFile("b.txt", "y")]
    ]


def test_a_step_that_is_not_understood_is_left_out():
    assert read_intents("create a.txt saying x, then run the tests") == [[WriteFile("a.txt", "x")]]


def test_nothing_is_begun_when_the_first_step_is_not_understood():
    assert read_intents("make it shine, then run ls") == []
