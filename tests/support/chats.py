"""Two conversations with tools, as the providers document their messages."""

from __future__ import annotations

from typing import Any, Final

OPENAI: Final[list[dict[str, Any]]] = [
    {"role": "system", "content": "You help with travel plans."},
    {"role": "user", "content": "Is it warmer in Rome or in Oslo?", "name": "Ann"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_9pw1qnYScqvGrCH58HWCvFH6",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{ "city":"Rome" }'},
            },
            {
                "id": "call_2bYRTn7QvWkpA1c0Zx3mLw8e",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
            },
        ],
    },
    {
        "role": "tool",
        "tool_call_id": "call_9pw1qnYScqvGrCH58HWCvFH6",
        "content": '{"celsius": 21}',
    },
    {
        "role": "tool",
        "tool_call_id": "call_2bYRTn7QvWkpA1c0Zx3mLw8e",
        "content": "error: the station does not answer",
    },
    {"role": "assistant", "content": "Rome has 21 °C; Oslo's station is silent.", "refusal": None},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "And which square is this?"},
            {"type": "image_url", "image_url": {"url": "https://example.org/square.png"}},
        ],
    },
    {
        "role": "assistant",
        "content": "Let me look it up.",
        "tool_calls": [
            {
                "id": "call_77",
                "type": "function",
                "function": {"name": "find_place", "arguments": '{"image": 1}'},
            }
        ],
    },
    {
        "role": "tool",
        "tool_call_id": "call_77",
        "content": [{"type": "text", "text": "Piazza Navona"}],
    },
    {"role": "assistant", "content": "That is Piazza Navona."},
]

ANTHROPIC: Final[dict[str, Any]] = {
    "system": [
        {
            "type": "text",
            "text": "You help with travel plans.",
            "cache_control": {"type": "ephemeral"},
        }
    ],
    "messages": [
        {"role": "user", "content": "Is it warmer in Rome or in Oslo?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Two cities, two calls.", "signature": "EqoBCkg"},
                {"type": "text", "text": "I'll ask both stations."},
                {
                    "type": "tool_use",
                    "id": "toolu_01A09q90qw90lq917835lq9",
                    "name": "get_weather",
                    "input": {"city": "Rome", "unit": "celsius"},
                },
                {
                    "type": "tool_use",
                    "id": "toolu_01B22",
                    "name": "get_weather",
                    "input": {"city": "Oslo", "unit": "celsius"},
                },
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_01A09q90qw90lq917835lq9",
                    "content": [{"type": "text", "text": "21"}],
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_01B22",
                    "content": "the station does not answer",
                    "is_error": True,
                },
            ],
        },
        {"role": "assistant", "content": "Rome has 21 °C; Oslo's station is silent."},
        {
            "role": "user",
            "content": [
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
                },
                {"type": "text", "text": "And which square is this?"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "toolu_01C", "name": "find_place", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01C", "content": "Piazza Navona"},
                {"type": "text", "text": "There it is, isn't it?"},
            ],
        },
        {"role": "assistant", "content": "That is Piazza Navona."},
    ],
}

CHATS: Final[dict[str, Any]] = {"openai": OPENAI, "anthropic": ANTHROPIC}


def messages_of(form: str) -> list[dict[str, Any]]:
    """The messages one by one, the system's first, as they are appended."""
    chat = CHATS[form]
    if form == "openai":
        return list(chat)
    return [{"role": "system", "content": chat["system"]}, *chat["messages"]]


def ends_exchange(message: dict[str, Any]) -> bool:
    """Whether the assistant has said all that it had to say."""
    if message["role"] != "assistant" or message.get("tool_calls"):
        return False
    return isinstance(message["content"], str)


def called_and_answered(form: str, chat: Any) -> tuple[list[str], list[str]]:
    """The ids of calls and of results of a message list, in order."""
    if form == "openai":
        calls = [call["id"] for one in chat for call in one.get("tool_calls", ())]
        return calls, [one["tool_call_id"] for one in chat if one["role"] == "tool"]
    parts = [
        part
        for one in chat["messages"]
        if isinstance(one["content"], list)
        for part in one["content"]
    ]
    calls = [part["id"] for part in parts if part["type"] == "tool_use"]
    return calls, [part["tool_use_id"] for part in parts if part["type"] == "tool_result"]
