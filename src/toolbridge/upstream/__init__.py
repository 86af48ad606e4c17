"""Connections to providers: HTTP, an Ollama server's model list, a llama.cpp child process."""
