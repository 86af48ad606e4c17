"""Media that a function gives back reach the model as media, wherever in the value they stand."""

from dataclasses import dataclass

import msgspec
from tests.tables import every_row

from toolbridge.core.messages import Call, Image, Text
from toolbridge.sdk.client.functions import result_of

CALL = Call("c1", "look", {})
PICTURE = Image(data="aGk=", media_type="image/png")


class Shot(msgspec.Struct):
    at: int
    picture: Image


@dataclass
class Photo:
    at: int
    picture: Image


@every_row(
    ("value", "text"),
    [
        ({"pic": PICTURE, "n": 1}, '{"pic":"[image 1 below]","n":1}'),
        ({"a": [{"b": PICTURE}]}, '{"a":[{"b":"[image 1 below]"}]}'),
        ([[PICTURE]], '[["[image 1 below]"]]'),
        (Shot(3, PICTURE), '{"at":3,"picture":"[image 1 below]"}'),
        (Photo(3, PICTURE), '{"at":3,"picture":"[image 1 below]"}'),
    ],
)
def test_a_picture_inside_a_value_comes_behind_its_json(value, text):
    assert result_of(CALL, value).content == (Text(text), PICTURE)


def test_pictures_in_a_list_stay_in_their_places():
    value = ["before", PICTURE, {"pic": PICTURE}]
    assert result_of(CALL, value).content == (
        Text("before"), PICTURE, Text('{"pic":"[image 1 below]"}'), PICTURE,
    )  # fmt: skip


@every_row("value", [{"a": [1, None]}, (1, 2), {1: "x"}, Photo])
def test_a_value_without_media_is_written_as_before(value):
    (part,) = result_of(CALL, value).content
    assert isinstance(part, Text)
