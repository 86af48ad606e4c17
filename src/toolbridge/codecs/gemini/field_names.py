"""What this API calls the fields of a request of ours: losses are told in the client's words."""

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
"""Our names of a request's fields → this API's, for what users are told; `*` is any part or tool."""
