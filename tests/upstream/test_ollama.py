"""What an Ollama server reports about its models, and its errors, over a real socket."""

import pytest
from tests.peers import model_server, whole

from toolbridge.core.errors import ToolbridgeError, UnknownModel
from toolbridge.upstream import ollama
from toolbridge.upstream.http import Upstream
from toolbridge.upstream.ollama import ModelDetails, OllamaCatalog


def serves(answers: dict[str, tuple[object, int]]):
    async def answer(heard, line):
        body, status = answers[heard.path]
        await whole(line, body, status)

    return answer


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_a_rejection_names_the_server_and_the_path(status):
    answers = {"/api/tags": ({"models": []}, status), "/api/show": ({}, status)}
    async with model_server(serves(answers)) as server, Upstream() as upstream:
        catalog = OllamaCatalog(upstream, server.url, {})
        for path, asked in (("/api/tags", catalog.names()), ("/api/show", catalog.show("m"))):
            with pytest.raises(
                ToolbridgeError, match=f"Ollama at {server.url} answered {status} to {path}"
            ):
                await asked


async def test_a_model_that_the_server_does_not_have_is_unknown():
    answers = {"/api/show": ({"error": "model 'm' not found"}, 404)}
    async with model_server(serves(answers)) as server, Upstream() as upstream:
        with pytest.raises(UnknownModel):
            await OllamaCatalog(upstream, server.url, {}).show("m")


async def test_details_are_read_once_and_a_model_without_them_is_listed_as_well():
    show = {"capabilities": ["tools"], "model_info": {"llama.context_length": 4096, "x": "y"}}

    async def answer(heard, line):
        if heard.path == "/api/tags":
            await whole(line, {"models": [{"name": "good"}, {"name": "bad"}]})
        elif heard.json["model"] == "good":
            await whole(line, show)
        else:
            await whole(line, {}, 500)

    async with model_server(answer) as server, Upstream() as upstream:
        catalog = OllamaCatalog(upstream, server.url, {})
        good, bad = await catalog.offered(wait=60)
        assert (good.name, good.shown) == ("good", ModelDetails(frozenset({"tools"}), 4096))
        assert (bad.name, bad.shown) == ("bad", ModelDetails())
        assert await catalog.show("good") == good.shown
    shown = [heard.json["model"] for heard in server.heard if heard.path == "/api/show"]
    assert sorted(shown) == ["bad", "good"]


@pytest.mark.parametrize(("kept", "requests"), [(1e9, 1), (0.0, 2)])
async def test_the_list_is_kept_for_a_moment(kept, requests, monkeypatch):
    monkeypatch.setattr(ollama, "LIST_KEPT", kept)
    answers = {"/proxy/api/tags?key=k": ({"models": None}, 200)}
    async with model_server(serves(answers)) as server, Upstream() as upstream:
        catalog = OllamaCatalog(upstream, f"{server.url}/proxy/?key=k", {"x-own": "1"})
        assert await catalog.names() == await catalog.names() == []
    assert len(server.heard) == requests
    assert server.heard[0].headers["x-own"] == "1"
