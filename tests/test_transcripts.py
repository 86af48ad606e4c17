"""Every transcript tells the same story in all its views."""

import pytest
from tests import transcript
from tests.tables import every_row

from toolbridge import codecs

STORIES = [
    pytest.param(path, id=str(path.relative_to(transcript.HOME).with_suffix("")))
    for path in transcript.paths()
]
OURS = {"events", "request", "problem"}


def api(fence):
    return fence.language.partition(" ")[0]


@every_row("path", STORIES)
def test_what_is_told_is_what_is_expected(path):
    story = transcript.read(path)
    # A view in an API that is not there yet is an error only when it is blessed.
    known = tuple(fence for fence in story.fences if api(fence) in {*OURS, *codecs.names()})
    assert transcript.tell(story._replace(fences=known)) == [fence.text for fence in known]


@every_row("path", STORIES)
def test_a_transcript_has_a_title_and_says_why(path):
    story = transcript.read(path)
    assert story.title
    assert story.why.count(". ") + story.why.count(".\n") + story.why.endswith(".") >= 2
    assert len(story.fences) >= 2


@pytest.mark.parametrize("name", codecs.names())
def test_every_codec_has_transcripts(name):
    assert any(api(transcript.read(path).fences[0]) == name for path in transcript.paths())
