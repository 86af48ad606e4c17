"""What a node leaves of a prompt: it deletes the marks of every chat template that it knows.

The rest becomes one user message in the host's own template, so turns that are told apart by such
marks alone run together. `framing` has a style that survives this.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class PromptFamily:
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
    """Return `prompt` as a node's template gets it."""
    for family in FAMILIES:
        if any(trigger in prompt for trigger in family.triggers):
            for mark in family.delete:
                prompt = prompt.replace(mark, "")
            return prompt.strip()
    return prompt.strip()
