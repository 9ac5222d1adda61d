"""What providers call their errors: codes, types and phrases, each to what it means here. Tables only.

Names are in lower case, words apart by `_`, without a trailing `exception`. From the error references and texts of
public APIs and open model servers.
"""

import re

CODES: dict[str, str] = {
    "model_context_window_exceeded": "context_length_exceeded",
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "rate_limit_reached_error": "rate_limit",
    "rate_limited": "rate_limit",
    "rate_limit": "rate_limit",
    "too_many_requests": "rate_limit",
    "too_many_requests_error": "rate_limit",
    "request_limit_exceeded": "rate_limit",
    "model_rate_limit": "rate_limit",
    "resource_exhausted": "rate_limit",
    "throttling": "rate_limit",
    "authentication_error": "auth",
    "invalid_authentication_error": "auth",
    "permission_error": "auth",
    "permission_denied": "auth",
    "permission_denied_error": "auth",
    "access_denied": "auth",
    "invalid_api_key": "auth",
    "unauthenticated": "auth",
    "unauthorized": "auth",
    "not_found_error": "not_found",
    "not_found": "not_found",
    "model_not_found": "not_found",
    "resource_not_found": "not_found",
    "resource_not_found_error": "not_found",
    "timeout_error": "timeout",
    "timeout": "timeout",
    "model_timeout": "timeout",
    "deadline_exceeded": "timeout",
    "invalid_request_error": "client_error",
    "invalid_request": "client_error",
    "invalid_argument": "client_error",
    "request_too_large": "client_error",
    "tool_use_failed": "client_error",
    "string_above_max_length": "client_error",
    "bad_request_error": "client_error",
    "validation": "client_error",
    "api_error": "upstream_error",
    "server_error": "upstream_error",
    "internal_server_error": "upstream_error",
    "internal_server": "upstream_error",
    "internal_error": "upstream_error",
    "internal": "upstream_error",
    "model_stream_error": "upstream_error",
    "provider_unavailable": "upstream_error",
}
"""A provider's code or type to a category, where it has no kind of its own."""

KINDS: dict[str, str] = {
    "context_length_exceeded": "context_length",
    "model_context_window_exceeded": "context_length",
    "prompt_too_long": "context_length",
    "exceed_context_size_error": "context_length",
    "tokens_limit_reached": "context_length",
    "model_max_prompt_tokens_exceeded": "context_length",
    "insufficient_quota": "quota",
    "insufficient_balance": "quota",
    "insufficient_credits": "quota",
    "quota_exceeded": "quota",
    "service_quota_exceeded": "quota",
    "exceeded_current_quota_error": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "usage_limit_reached": "quota",
    "credit_limit": "quota",
    "budget_exceeded": "quota",
    "arrearage": "quota",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "responsible_aipolicy_violation": "content_filter",
    "responsible_ai_policy_violation": "content_filter",
    "responsibleaipolicyviolation": "content_filter",
    "data_inspection_failed": "content_filter",
    "moderation": "content_filter",
    "moderation_blocked": "content_filter",
    "invalid_prompt": "content_filter",
    "cyber_policy": "content_filter",
    "overloaded_error": "overload",
    "overloaded": "overload",
    "model_overloaded": "overload",
    "engine_overloaded": "overload",
    "engine_overloaded_error": "overload",
    "server_is_overloaded": "overload",
    "slow_down": "overload",
    "unavailable": "overload",
    "unavailable_error": "overload",
    "service_unavailable": "overload",
    "service_unavailable_error": "overload",
    "model_not_ready": "overload",
    "capacity_exceeded": "overload",
    "over_capacity": "overload",
}
"""A provider's code or type to one of the four kinds that are told apart."""

BILLING: dict[str, str] = {"billing_error": "client_error"}
"""Codes that are of the kind `quota` and still no limit of a rate."""

CODES |= BILLING
KINDS |= dict.fromkeys(BILLING, "quota")

KIND_CATEGORIES: dict[str, str] = {
    "context_length": "context_length_exceeded",
    "quota": "rate_limit",
    "content_filter": "client_error",
    "overload": "upstream_error",
}
"""Kind to the category of an error whose code and status say nothing else."""

STATUS_KINDS: dict[int, str] = {402: "quota", 529: "overload"}
"""Statuses that mean one kind whatever the body says; 429 and 503 do not."""

PHRASES: dict[str, re.Pattern[str]] = {
    "context_length": re.compile(
        r"(maximum|max) (context|model|prompt|input) length|context (length|window|size)[^.]{0,40}(exceed|limit|full)"
        r"|exceed\w{0,3}[^.]{0,60}context.?(length|window|size|limit)|(prompt|input) is too long"
        r"|longer than the (model|maximum)|reduce the length of the (messages|prompt|input)"
        r"|(input|prompt) token count[^.]{0,40}exceed|exceeded model token limit"
        r"|`inputs` tokens \+ `max_new_tokens` must be|range of input length should be"
        r"|`?inputs`? must have less than \d+ tokens|tokens? in request more than max"
        r"|(prompt|input)( length)?( \d+)? exceeds (the )?max|prompt length[^.]{0,40} exceed"
        r"|tokens in the prompt cannot exceed|number of input tokens[^.]{0,40} exceed|context( the)? overflow"
        r"|context_?window_?exceeded|string with maximum length \d{6}|body too large for .{1,60} model",
        re.IGNORECASE,
    ),
    "quota": re.compile(
        r"exceeded your (current|monthly) (quota|spend)(?!.* retry in \d)|insufficient (quota|balance|credit|funds)"
        r"|credit balance is too low|billing hard limit|(requires more|out of|not enough) credits"
        r"|account balance|payment required|quota (exceeded|has been exceeded) for (the|your) (month|plan)"
        r"|used all available credits|(reach|exceed|hit)\w{0,3}[^.]{0,50} (spending|spend|usage) limits?"
        r"(?!.*per minute)|credit limit exceeded|budget has been exceeded",
        re.IGNORECASE | re.DOTALL,
    ),
    "content_filter": re.compile(
        r"content (management|usage) policy|content.(policy|filter\w*)|flagged (as|for|by)"
        r"|safety (system|filter|policy)|prohibited content|usage polic(y|ies)|inappropriate content"
        r"|blocked (by|due to) (our |the )?(safety|guardrail|polic)|content exists risk",
        re.IGNORECASE,
    ),
    "overload": re.compile(
        r"overload|at capacity|server( is)?( too)? busy|no capacity|capacity exceeded"
        r"|temporarily unavailable|try again later due to|(experiencing|under) (high|heavy) (demand|load|traffic)"
        r"|loading model|is currently loading",
        re.IGNORECASE,
    ),
}
"""Kind to the phrases of it, in the order in which they are looked for. A quota that says when to retry is a rate."""

OUTPUT_LIMIT = re.compile(r"max_(\w{1,20}_)?tokens", re.IGNORECASE)
PROMPT = re.compile(r"input|prompt|message", re.IGNORECASE)
"""A text that names the limit of the output, and nothing that goes in, is about a parameter: no overflow."""

PERMANENT = frozenset({"quota", "content_filter", "context_length"})
"""Kinds that no retry cures, whatever their category."""
