"""Look-up of the built-in folder policies by name, configured by a TOML table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from indexer.synthesis.base import Policy, PolicyOptionsError, Tokens, UnknownPolicyError
from indexer.synthesis.concatenate import Concatenate
from indexer.synthesis.filter import Filter
from indexer.synthesis.summarize import Summarize

Options = Mapping[str, object]


def policy_names() -> tuple[str, ...]:
    """The built-in policies, in order of name."""
    return tuple(sorted(_BUILT_IN))


def make_policy(name: str, options: Options | None = None, *, tokens: Tokens) -> Policy:
    """The built-in policy declared as `name`."""
    make = _BUILT_IN.get(name)
    if make is None:
        raise UnknownPolicyError(
            f"there is no built-in folder policy {name!r}",
            hint=f"built in are: {', '.join(policy_names())}",
        )
    return make(options or {}, tokens)


def _concatenate(options: Options, tokens: Tokens) -> Policy:
    _known("concatenate", options, ("headings", "absent", "max_tokens"))
    return Concatenate(tokens, **options)  # type: ignore[arg-type]  # it checks them itself


def _summarize(options: Options, tokens: Tokens) -> Policy:
    _known("summarize", options, ("max_tokens",))
    return Summarize(tokens, **options)  # type: ignore[arg-type]  # it checks them itself


def _filter(options: Options, tokens: Tokens) -> Policy:
    own = ("include", "exclude", "kinds", "match", "framed")
    _known("filter", options, (*own, "then", "options"))
    then, inner = options.get("then", "concatenate"), options.get("options", {})
    if not isinstance(then, str) or then == "filter":
        raise PolicyOptionsError(
            f"filter: then = {then!r} is not a policy that can follow a filter",
            hint="put all conditions into one filter",
        )
    if not isinstance(inner, Mapping):
        raise PolicyOptionsError(f"filter: options = {inner!r} is not a table")
    conditions = {name: _condition(name, value) for name, value in options.items() if name in own}
    following = make_policy(then, inner, tokens=tokens)
    return Filter(following, **conditions)  # type: ignore[arg-type]  # it checks them itself


def _condition(option: str, value: object) -> object:
    """A list as the policy takes it; a single text where several could be is a list of one."""
    if isinstance(value, str) and option != "framed":
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _known(policy: str, options: Options, known: tuple[str, ...]) -> None:
    """Refuse options of other names."""
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise PolicyOptionsError(
            f"{policy} has no option {', '.join(map(repr, unknown))}",
            hint=f"its options are: {', '.join(known)}",
        )


_BUILT_IN: dict[str, Callable[[Options, Tokens], Policy]] = {
    "concatenate": _concatenate,
    "filter": _filter,
    "summarize": _summarize,
}
