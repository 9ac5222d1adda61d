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
    "summary": "the list inside Databricks' reasoning parts (Databricks documentation, reasoning models)",
    "reasoning_details": "OpenRouter, with and without index (recorded)",
    "thinking_blocks": "LiteLLM's form of Anthropic's thinking blocks (LiteLLM documentation)",
}
"""Members of a chat delta that are lists of parts: a part continues the part before it if type and id agree."""

REASONING: dict[str, str] = {
    "reasoning_content": "DeepSeek API documentation; vLLM before 0.11, SGLang",
    "reasoning": "vLLM from 0.11 (vLLM issue 27755), OpenRouter, Groq; recorded",
    "reasoning_text": "GitHub Copilot, beside `reasoning_opaque` (opencode's Copilot provider)",
    "cot_summary": "GitHub Copilot, beside `cot_id` (tests of the VS Code Copilot Chat extension)",
}
"""Members of a chat delta that hold reasoning, in order of preference where both say the same."""

REASONING_LISTS: dict[str, str] = {
    "reasoning_details": "OpenRouter, MiniMax: `text` or `summary` of each detail",
    "thinking_blocks": "LiteLLM's form of Anthropic's thinking blocks: `thinking` of each",
}
"""Members of a chat message that hold reasoning as a list, where no member holds it as text."""

LAST_WINS: dict[str, str] = {
    "system_fingerprint": "the OpenAI SDK keeps the last one",
    "moderation": "the OpenAI SDK keeps the last one",
    "sglext": "SGLang's extension: the last chunk has the whole answer's (SGLang pull request 18398)",
    "metadata": "SGLang's weight versions, whole in the last chunk (SGLang pull request 40347)",
}
"""Members beside a chat chunk's choices of which the last one counts, not the first."""

ECHOES: dict[str, str] = {
    "text": "Together repeats the delta's content in it (recorded)",
}
"""Members beside a chat delta that only repeat it, piece by piece: the first one is kept, as the OpenAI SDK does."""

REASON_PATHS: dict[tuple[str, ...], str] = {
    ("finish_reason",): "OpenAI API reference, chat completion object",
    ("finish_details", "type"): "OpenAI's vision preview of GPT-4 (recorded)",
}
"""Where in a chat choice its reason to finish may be, first match wins."""

NO_REASONS: dict[str, str] = {
    "": "SGLang issue 3912, on every chunk",
    "null": "DashScope's native API and gateways in front of it: the word, on every chunk",
}
"""Finish reasons that are none."""

ERROR_MEMBERS: dict[str, tuple[str, str]] = {
    "base_resp": ("status_code", "status_msg"),
}
"""Members in which a 200 reports an error: its code, which is 0 for success, and its text. MiniMax's API errors."""

USAGE_PATHS: dict[tuple[str | int, ...], str] = {
    ("usage",): "the OpenAI and Anthropic APIs",
    ("x_groq", "usage"): "Groq API reference, streaming",
    ("choices", 0, "usage"): "Moonshot API documentation, streaming: in the last chunk's choice",
    ("usageMetadata",): "Gemini API reference, GenerateContentResponse, behind gateways",
    ("amazon-bedrock-invocationMetrics",): "Amazon Bedrock documentation, last event of a Messages stream",
}
"""Where a response's usage may be, first match wins."""

SILENT_EVENTS: dict[str, str] = {
    "ping": "Anthropic streaming documentation; sent any number of times, anywhere",
    "keepalive": "OpenAI Responses streams behind some gateways",
    "keep-alive": "the same in other spellings",
    "keep_alive": "the same in other spellings",
    "heartbeat": "the same in other words",
    "vertex_event": "Vertex AI, between the events of Anthropic's models; gateways drop it (Portkey's transformer)",
}
"""Event types that say nothing about the answer."""

RETRY_COUNT_HEADERS: dict[str, str] = {
    "x-stainless-retry-count": "the official OpenAI and Anthropic SDKs, on every request",
}
"""Request headers in which a client counts its retries."""

PROMPT_ID_PATHS: dict[tuple[str | int, ...], str] = {
    ("prompt_token_ids",): "vLLM's OpenAI server with return_token_ids",
    ("choices", 0, "prompt_token_ids"): "SGLang with return_token_ids (SGLang pull request 30917)",
    ("choices", 0, "message", "prompt_token_ids"): "NeMo Gym's model servers",
    ("output", "*", "prompt_token_ids"): "NeMo Gym's model servers, on one output item",
    ("sglext", "prompt_token_ids"): "SGLang pull request 18398",
}
"""Where the prompt's token ids may be, first match wins."""

OUTPUT_ID_PATHS: dict[tuple[str | int, ...], str] = {
    ("choices", 0, "token_ids"): "vLLM's OpenAI server and SGLang with return_token_ids",
    ("choices", 0, "message", "generation_token_ids"): "NeMo Gym's model servers",
    ("output", "*", "generation_token_ids"): "NeMo Gym's model servers, on one output item",
    ("sglext", "completion_token_ids", 0): "SGLang pull request 18398",
    ("token_ids",): "servers that answer with one choice",
}
"""Where the token ids of choice 0 may be, first match wins."""

LOGPROB_PATHS: dict[tuple[str | int, ...], str] = {
    ("choices", 0, "message", "generation_log_probs"): "NeMo Gym's model servers",
    ("output", "*", "generation_log_probs"): "NeMo Gym's model servers, on one output item",
    ("choices", 0, "meta_info", "output_token_logprobs"): "SGLang with return_meta_info: [logprob, id, text]",
    ("choices", 0, "logprobs", "content"): "OpenAI API reference, chat completion object",
    ("output", "*", "content", "*", "logprobs"): "OpenAI API reference, response object",
}
"""Where the log probabilities of choice 0's tokens may be, first match wins."""

TOKEN_ID_PREFIX: dict[str, str] = {
    "token_id:": "vLLM's return_tokens_as_token_ids: a token's text is this and its id",
}
"""What stands in front of a token's id where it is sent in place of the token's text."""

WEIGHTS_PATHS: dict[tuple[str | int, ...], str] = {
    ("sglext",): "SGLang pull request 40347",
    ("metadata",): "SGLang documentation, chat completions; spans since pull request 35926",
    ("choices", 0, "meta_info"): "SGLang with return_meta_info",
    ("meta_info",): "servers that follow SGLang's native API",
    (): "vLLM pull request 53199: on the response itself",
}
"""Objects that may hold `weight_versions`, spans of tokens, or `weight_version`; first match wins."""

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
