"""The node's own rewriting of a prompt, as a function: it deletes the markers of chat templates.

Nodes since 8.5.5 wrap the rest as one user message in the host's template, so turns that only such
markers separate are joined. The style `labelled` of `prompt` survives this, and `vectors` compares
this function with recorded results.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PromptFamily:
    """A chat template: if a trigger occurs in the prompt, its markers are deleted in order."""

    triggers: tuple[str, ...]
    delete: tuple[str, ...]


_HARMONY_ROLES = ("user", "assistant", "system")
_CHANNELS = ("final", "analysis", "commentary")
_CHATML_ROLES = ("user", "assistant", "system")
_GLM_ROLES = ("system", "user", "assistant", "observation")

FAMILIES = (
    PromptFamily(
        ("<|start|>", "<|message|>", "<|end|>"),
        (
            *(f"<|start|>{role}<|message|>" for role in _HARMONY_ROLES),
            *(f"<|start|>assistant<|channel|>{channel}<|message|>" for channel in _CHANNELS),
            *("<|end|>", "<|start|>", "<|message|>"),
            *(f"<|channel|>{channel}" for channel in _CHANNELS),
        ),
    ),
    PromptFamily(
        ("<|im_start|>", "<|im_end|>"),
        (
            *(f"<|im_start|>{role}\n" for role in _CHATML_ROLES),
            *(f"<|im_start|>{role}" for role in _CHATML_ROLES),
            *("<|im_end|>", "<|im_start|>"),
        ),
    ),
    PromptFamily(
        ("<|system|>", "<|user|>", "<|observation|>"),
        (*(f"<|{role}|>\n" for role in _GLM_ROLES), *(f"<|{role}|>" for role in _GLM_ROLES)),
    ),
    PromptFamily(("[INST]", "[/INST]"), ("[INST]", "[/INST]", "<<SYS>>", "<</SYS>>")),
)


def flatten(prompt: str) -> str:
    """Return `prompt` without markers, as the host's template receives it."""
    for family in FAMILIES:
        if any(trigger in prompt for trigger in family.triggers):
            for mark in family.delete:
                prompt = prompt.replace(mark, "")
            return prompt.strip()
    return prompt.strip()
