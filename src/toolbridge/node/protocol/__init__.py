"""The node protocol as values: keys, encryption, messages, prompts and answers, without I/O."""
