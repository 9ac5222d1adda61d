"""The one table of what single vendors and servers do differently, each row with its source.

No other file names a vendor or a model. A row says which member is special and why; the code that reads the table
knows only the kind of specialness. Sources are public documentation, reports and recorded exchanges.
"""

LABELS: dict[str, str] = {
    "role": "repeated on every chunk by many servers (Together, Snowflake, OpenRouter; recorded)",
    "type": "discriminates a union; OpenAI SDK treats it so",
    "id": "repeated with tool calls (LiteLLM issue 7621, control 1) and reasoning details (Snowflake; recorded)",
    "format": "label of OpenRouter's reasoning_details, repeated on every chunk (recorded)",
    "channel": "harmony channel, repeated on every reasoning chunk (Groq; recorded)",
    "status": "state of a message or item, not text",
    "object": "type label of the OpenAI family",
    "tool_call_id": "names a call (tool results that some servers stream)",
}
"""Members of a chat delta whose text is a label: the first value is kept, nothing is appended."""

PART_LISTS: dict[str, str] = {
    "content": "Mistral streams lists of text and thinking parts (recorded)",
    "thinking": "the list inside Mistral's thinking parts (recorded)",
    "reasoning_details": "OpenRouter, with and without index (recorded)",
    "thinking_blocks": "LiteLLM's form of Anthropic's thinking blocks (LiteLLM documentation)",
}
"""Members of a chat delta that are lists of parts: a part continues the part before it if type and id agree."""

REASONING: dict[str, str] = {
    "reasoning_content": "DeepSeek API documentation; vLLM before 0.11, SGLang",
    "reasoning": "vLLM from 0.11 (vLLM issue 27755), OpenRouter, Groq; recorded",
}
"""Members of a chat delta that hold reasoning, in order of preference where both say the same."""

USAGE_PATHS: dict[tuple[str | int, ...], str] = {
    ("usage",): "the OpenAI and Anthropic APIs",
    ("x_groq", "usage"): "Groq API reference, streaming",
    ("choices", 0, "usage"): "Moonshot API documentation, streaming: in the last chunk's choice",
}
"""Where a response's usage may be, first match wins."""

SILENT_EVENTS: dict[str, str] = {
    "ping": "Anthropic streaming documentation; sent any number of times, anywhere",
    "keepalive": "OpenAI Responses streams behind some gateways",
}
"""Event types that say nothing about the answer."""

RETRY_COUNT_HEADERS: dict[str, str] = {
    "x-stainless-retry-count": "the official OpenAI and Anthropic SDKs, on every request",
}
"""Request headers in which a client counts its retries."""

REQUEST_ID_HEADERS: dict[str, str] = {
    "x-client-request-id": "OpenAI API documentation",
    "x-request-id": "common among proxies and clients",
}
"""Request headers with the client's own id of a request, first match wins."""

SESSION_ID_HEADERS: dict[str, str] = {
    "x-session-id": "NeMo Gym, and common among clients",
    "session-id": "Codex",
    "x-claude-code-session-id": "Claude Code",
}
"""Request headers with the client's own id of a session, first match wins."""
