"""Requests that load a model and ask nothing.

Ollama API: `ollama run` begins with a request without messages, which loads the model. Other APIs have
no such request and reject it, so the gateway answers it itself.
"""

from toolbridge.core import events as ev
from toolbridge.core.draft import Draft
from toolbridge.core.ids import Ids
from toolbridge.core.messages import Request


def loaded_answer(request: Request, ids: Ids) -> list[ev.Event]:
    """Return the empty answer to a request that loads the model."""
    draft = Draft(ids)
    return draft.start(id=ids.message(), model=request.model) + draft.finish("end")
