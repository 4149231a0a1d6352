"""Caps hold: with many threads, failures, retries, and whatever the server reports."""

from __future__ import annotations

import random
import threading
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.core.tokens import TiktokenCounter
from indexer.engine.make.run import NeedsYesError, NoPriceError
from indexer.generators.llm.budget import Budget, Caps, Price, Refused, Reserved
from indexer.generators.llm.calling import Brake, Caller, Failure
from indexer.generators.llm.client import Answer, CallFailed
from indexer.generators.llm.writer import ModelRequest
from tests.support.asking import Asking, declaration
from tests.support.model_server import (
    ModelServer,
    answer,
    broken_json,
    fails,
    held,
    no_choices,
    reset,
)
from tests.support.space import Space, python

PRICES = '[llm.prices."{model}"]\ninput = 1000.0\noutput = 2000.0\n'
MANY = {f"p{number % 5}/m{number}.py": python(f"f{number}") for number in range(30)}


def request(tokens: int = 100, out: int = 50) -> ModelRequest:
    return ModelRequest("m", (), out, None, tokens, tokens)


def test_a_price_is_per_million_tokens() -> None:
    assert Price(Decimal("0.15"), Decimal("0.60")).of(2_000_000, 500_000) == Decimal("0.60")


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=30),
    st.integers(0, 200), st.integers(0, 12),
)  # fmt: skip
def test_what_is_reserved_and_spent_never_exceeds_a_cap(
    steps: list[tuple[int, int]], most: int, calls: int
) -> None:
    budget = Budget(Caps(calls, Decimal(most)))
    for worst, real in steps:
        reserved = budget.reserve(Decimal(worst))
        if isinstance(reserved, Reserved):
            budget.charge(reserved, Decimal(min(worst, real)), 0, 0)
        assert budget.spent <= most
        assert budget.calls <= calls


def test_a_reservation_waits_for_calls_that_may_turn_out_cheaper() -> None:
    budget = Budget(Caps(max_cost=Decimal(10)))
    first = budget.reserve(Decimal(8))
    assert isinstance(first, Reserved)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(budget.reserve(Decimal(5))))
    waiting.start()
    assert found == []
    budget.charge(first, Decimal(2), 0, 0)
    waiting.join(30)
    assert isinstance(found[0], Reserved)
    # What cannot fit even when all others cost nothing is refused at once.
    assert budget.reserve(Decimal(9)) == Refused("max_cost")


class _Flaky:
    """A server that fails as a seed says, and never charges more than was agreed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lock = threading.Lock()
        self.attempts = 0
        self.charged = 0

    def ask(self, request: ModelRequest) -> Answer:
        with self.lock:
            self.attempts += 1
            dice = self.chance.random()
            used = self.chance.randint(0, request.tokens), self.chance.randint(0, 50)
        if dice < 0.2:
            raise CallFailed("busy", retry=True, billed=False)
        with self.lock:
            self.charged += sum(used)
        if dice < 0.4:
            raise CallFailed("cut off", retry=True)
        if dice < 0.5:
            raise CallFailed("empty", retry=True, usage=used)
        return Answer("text", *used, False)


@pytest.mark.parametrize("seed", range(6))
def test_threads_retries_and_failures_stay_within_both_caps(seed: int) -> None:
    most, calls = Decimal(3000), 40
    server = _Flaky(seed)
    budget = Budget(Caps(calls, most))
    price = Price(Decimal(1_000_000), Decimal(1_000_000))
    caller = Caller(server, budget, lambda model: price, 3, 1.0, Brake())
    outcomes: list[Any] = []

    def work() -> None:
        for _ in range(10):
            outcomes.append(caller.call(request()))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(outcomes) == 80
    assert server.attempts == budget.calls <= calls
    # What the server really charged is no more than what was counted, and that within the cap.
    assert server.charged <= budget.spent <= most
    assert any(isinstance(one, Refused) for one in outcomes)
    assert any(isinstance(one, Answer) for one in outcomes)


def test_a_pause_that_is_too_long_is_not_taken() -> None:
    class Busy:
        def ask(self, request: ModelRequest) -> Answer:
            raise CallFailed("HTTP 429", retry=True, after=600.0, billed=False)

    budget = Budget(Caps())
    found = Caller(Busy(), budget, lambda model: None, 3, 60.0, Brake()).call(request())
    assert isinstance(found, Failure)
    assert "600 s" in found.message
    assert budget.calls == 1


def test_one_thread_told_to_wait_holds_all_of_them() -> None:
    now = [0.0]
    brake = Brake(clock=lambda: now[0])
    brake.hold(5.0)
    waited: list[float] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0.0)
            now[0] += timeout or 0.0
            return False

    brake.stop = Stop()
    assert brake.wait()
    assert waited == [5.0]


# -- through the engine, against a server


def capped(asking: Asking, concurrency: int = 8) -> Space:
    model = "gpt-4o-mini"
    llm = f"concurrency = {concurrency}\n{PRICES.format(model=model)}"
    return asking(MANY, llm=llm)


def test_max_calls_holds_with_eight_at_once_and_the_next_run_goes_on(
    asking: Asking, server: ModelServer
) -> None:
    space = capped(asking)
    made = []
    for expected in (13, 13, 10):
        before = server.calls
        document = space.engine.regenerate(max_calls=13)
        assert server.calls - before == document["calls"] == expected
        made.append(document["regenerated"])
        assert (document["stopped"], document["failed"]) == (
            "max_calls" if expected == 13 else None, [],
        )  # fmt: skip
        space.valid()
    # 30 files, five folders and the root: every call of every run counts.
    assert sum(made) == 36 == server.calls
    assert space.engine.regenerate()["unchanged"]


def test_max_calls_holds_under_failures_and_retries(asking: Asking, server: ModelServer) -> None:
    space = capped(asking)
    chance = random.Random(3)
    replies = [answer, fails(500), fails(429, retry_after="0"), broken_json, no_choices, reset]
    for _ in range(200):
        server.then(chance.choice(replies))
    for most in (1, 7, 20):
        before = server.calls
        document = space.engine.regenerate(max_calls=most)
        assert server.calls - before <= most
        assert document["calls"] <= most


def test_max_cost_holds_with_eight_at_once(asking: Asking, server: ModelServer) -> None:
    space = capped(asking)
    server.usage = (300, 200)
    each = (300 * 1000 + 200 * 2000) / 1e6
    document = space.engine.regenerate(max_cost=5.0)
    assert document["stopped"] == "max_cost"
    spent = server.answered * each
    assert 0 < spent <= 5.0
    assert document["cost"] == pytest.approx(spent)
    # The worst case of one more call did not fit.
    assert spent + each > 5.0 - 2.0


def test_a_cost_cannot_be_capped_without_a_price(asking: Asking, server: ModelServer) -> None:
    space = asking()
    with pytest.raises(NoPriceError):
        space.engine.regenerate(max_cost=1.0)
    assert server.calls == 0


def test_no_more_calls_are_under_way_than_allowed(asking: Asking, server: ModelServer) -> None:
    gate = threading.Event()
    server.always = held(gate)
    space = asking(MANY, llm="concurrency = 3")
    thread = threading.Thread(target=lambda: (server.wait_for(3), gate.set()))
    thread.start()
    space.engine.regenerate()
    thread.join()
    assert server.most_under_way == 3


def test_the_stalest_and_then_the_smallest_come_first(asking: Asking, server: ModelServer) -> None:
    files = {"big.py": python("x" * 300), "mid.py": python("y" * 60), "small.py": python("z")}
    space = asking(files, llm="concurrency = 1")
    assert space.engine.regenerate(max_calls=1)["stopped"] == "max_calls"
    space.engine.regenerate(max_calls=2)
    assert server.asked_about() == ["File: small.py", "File: mid.py", "File: big.py"]
    server.bodies.clear()
    # small.py has the oldest frame, big.py the youngest; all are stale now.
    space.fill({name: text + "\n# more\n" for name, text in files.items()})
    space.engine.regenerate(max_calls=2)
    assert server.asked_about() == ["File: small.py", "File: mid.py"]
    server.bodies.clear()
    # Now big.py has the oldest one, however large it is.
    space.fill({name: text + "\n# even more\n" for name, text in files.items()})
    space.engine.regenerate(max_calls=1)
    assert server.asked_about() == ["File: big.py"]


def test_a_large_run_needs_a_yes_or_a_cap(asking: Asking, server: ModelServer) -> None:
    space = asking(llm="ask_above_calls = 7")
    with pytest.raises(NeedsYesError) as refused:
        space.engine.regenerate()
    assert "up to 8 calls" in refused.value.message
    assert server.calls == 0
    assert space.engine.regenerate(max_calls=2)["calls"] == 2
    assert space.engine.regenerate()["calls"] == 6
    # Free work never asks.
    space.declare(declaration(server.url, llm="ask_above_calls = 0"))
    assert space.engine.regenerate()["unchanged"]
    space.write("src/one/a.py", python("a", value=3))
    with pytest.raises(NeedsYesError):
        space.engine.regenerate()
    assert space.engine.regenerate(yes=True)["calls"] == 4


def test_a_dear_run_needs_a_yes(asking: Asking, server: ModelServer) -> None:
    llm = "ask_above_cost = 0.5\n" + PRICES.format(model="gpt-4o-mini")
    space = asking(llm=llm)
    with pytest.raises(NeedsYesError) as refused:
        space.engine.regenerate()
    assert "a cost of up to" in refused.value.message
    assert server.calls == 0


def test_a_plan_says_what_the_run_then_does(asking: Asking, server: ModelServer) -> None:
    space = asking(llm=PRICES.format(model="gpt-4o-mini"))
    found = space.engine.regenerate(plan=True)
    assert server.calls == 0
    totals = found["totals"]
    assert (totals["calls"], totals["reused"], len(found["plan"])) == (8, 0, 8)
    by_path = {entry["path"]: entry for entry in found["plan"]}
    assert by_path["src"]["estimated"]
    assert not by_path["README.md"]["estimated"]
    entry = by_path["README.md"]
    assert entry["tokens"] > 0
    assert entry["cost"] == pytest.approx((entry["tokens"] * 1000 + 400 * 2000) / 1e6)
    assert totals["cost"] == pytest.approx(sum(one["cost"] for one in found["plan"]))
    document = space.engine.regenerate(yes=True)
    assert document["calls"] == totals["calls"]
    # One edit: the file exactly, the folders above it as an estimate from above.
    space.write("src/one/a.py", python("a", value=4))
    plan = space.engine.regenerate(plan=True)
    assert [entry["path"] for entry in plan["plan"]] == ["src/one/a.py", "src/one", "src", ""]
    asked = server.calls
    space.engine.regenerate(yes=True)
    sent = server.bodies[asked:]
    counter = TiktokenCounter(encoding_name="o200k_base")
    real = [sum(counter.count_text(m["content"]) for m in body["messages"]) for body in sent]
    for entry, tokens in zip(plan["plan"], real, strict=True):
        assert tokens <= entry["tokens"]
    # Everything known: a plan without a call.
    space.write("src/one/a.py", python("a"))
    plan = space.engine.regenerate(plan=True)
    assert {entry["action"] for entry in plan["plan"]} == {"reuse"}
    assert (plan["totals"]["calls"], plan["totals"]["reused"]) == (0, 4)
    assert plan["totals"]["cost"] == 0


def test_without_a_price_a_plan_says_so(asking: Asking) -> None:
    totals = asking().engine.regenerate(plan=True)["totals"]
    assert (totals["cost"], totals["unpriced"]) == (None, ["gpt-4o-mini"])


def test_deterministic_frames_cost_no_tokens(space: Space) -> None:
    space.write("a.py", python("a"))
    space.engine.scan()
    found = space.engine.regenerate(plan=True)
    assert [entry["tokens"] for entry in found["plan"]] == [0, 0]
    assert found["totals"]["calls"] == 0
