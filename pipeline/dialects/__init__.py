"""The dialects: one sans-IO reassembler and one reader each, found by the name that a route gives an exchange."""

from pipeline.dialects import chat, completion, message_object, messages, response_object, responses
from pipeline.dialects.base import Assembly, Dialect, Mark, Meaning, Reassembler

DIALECTS: dict[str, Dialect] = {
    "chat": Dialect(chat.ChatReassembler, completion.read),
    "responses": Dialect(responses.ResponsesReassembler, response_object.read),
    "messages": Dialect(messages.MessagesReassembler, message_object.read),
}

__all__ = ["DIALECTS", "Assembly", "Dialect", "Mark", "Meaning", "Reassembler"]
