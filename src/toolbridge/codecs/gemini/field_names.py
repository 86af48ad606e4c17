"""Gemini's names for the fields of our `Request`.

A loss names a field by its path in our request; clients read the name of their own API.
"""

FIELD_NAMES = {
    "sampling.temperature": "generationConfig.temperature",
    "sampling.top_p": "generationConfig.topP",
    "sampling.top_k": "generationConfig.topK",
    "sampling.seed": "generationConfig.seed",
    "sampling.frequency_penalty": "generationConfig.frequencyPenalty",
    "sampling.presence_penalty": "generationConfig.presencePenalty",
    "sampling.logprobs": "generationConfig.logprobs",
    "sampling.n": "generationConfig.candidateCount",
    "turns": "contents",
    "system": "systemInstruction",
    "think": "generationConfig.thinkingConfig",
    "think.mode": "generationConfig.thinkingConfig",
    "think.budget": "generationConfig.thinkingConfig.thinkingBudget",
    "think.effort": "generationConfig.thinkingConfig.thinkingLevel",
    "think.show": "generationConfig.thinkingConfig.includeThoughts",
    "output": "generationConfig.responseJsonSchema",
    "max_tokens": "generationConfig.maxOutputTokens",
    "stop": "generationConfig.stopSequences",
    "tool_choice": "toolConfig.functionCallingConfig",
    "tool_choice.mode": "toolConfig.functionCallingConfig.mode",
    "tool_choice.names": "toolConfig.functionCallingConfig.allowedFunctionNames",
    "*.schema": "parametersJsonSchema",
    "*.detail": "mediaResolution",
}
"""Our path of a field → the name in this API; `*` stands for any part or tool."""
