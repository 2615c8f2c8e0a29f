#!/usr/bin/env python3
"""The value to eviction of points that a tool loop passed, simulated: prefilled tokens / those without a budget.

    bench/passed_points.py > table.md

Agents' sessions take turns on a model with points: a shared system prompt, tasks of many calls, thinking that the next
user message drops, and now and then a client that edits the loop. Where the budget is over, what is worth least leaves,
by the formulas of src/policy/evict_order.h. The same on each machine.
"""

import heapq
import random

SYSTEM, USER, THINKING, CALL, RESULT = 4000, 200, 100, 50, 600  # tokens
POINT = 2400  # a point's size, where a token's rows are 1: a hybrid of 27 billion parameters
SECONDS = 20  # between requests
LONGEST = 60000  # a conversation; then another begins
OPEN, AWAITED, PASSED = range(3)
SHARES, SEEDS = (1, 4, 16, 64), range(1, 4)


class Held:
    """A message's rows, or the point at its end."""

    def __init__(self, place, is_point, now):
        self.place, self.is_point, self.used, self.clock, self.outlook = place, is_point, now, 0, OPEN
        self.size = POINT if is_point else place.end - place.begin


class Place:
    """A message after those before it."""

    def __init__(self, above=None, tokens=0):
        self.above, self.begin = above, above.end if above else 0
        self.end = self.begin + tokens
        self.below, self.rows, self.point = {}, None, None

    def after(self, name, tokens):
        if name not in self.below:
            self.below[name] = Place(self, tokens)
        return self.below[name]


class Cache:
    def __init__(self, budget, share):
        self.budget, self.share, self.now, self.root, self.held, self.size = budget, share, 0, Place(), {}, 0
        self.clock = None  # before anything left

    def request(self, messages, reply, user_end):
        """Prefilled tokens of a prompt of (name, tokens) messages; the reply is computed as well."""
        self.now += SECONDS
        path = [self.root]
        for name, tokens in messages + [reply]:
            path.append(path[-1].after(name, tokens))
        path = path[1:]
        self.busy = {place.rows for place in path}
        rows = next((i for i, place in enumerate(path[:-1]) if not place.rows), len(path) - 1)
        stands = max((i for i in range(rows) if path[i].point), default=-1)
        for place in path[:stands + 1]:
            self.use(place.rows)
        if stands >= 0:
            self.use(path[stands].point)
            self.await_point(path[:stands + 1], user_end)
        for i in range(stands + 1, len(path)):
            self.add(path[i], False)
            if i in (0, user_end, len(path) - 2, len(path) - 1):  # anchor, last user message, turn, reply
                self.add(path[i], True)
        return path[-2].end - (path[stands].end if stands >= 0 else 0)

    def use(self, held):
        held.used, held.clock = self.now, self.clock or 0

    def await_point(self, path, user_end):
        awaited = user_end if user_end < len(path) and path[user_end].point else None
        for i, place in enumerate(path):
            if not place.point:
                continue
            passed = awaited is not None and awaited < i < len(path) - 1
            place.point.outlook = AWAITED if i == awaited else PASSED if passed else OPEN
            if i == awaited:
                self.use(place.point)

    def add(self, place, is_point):
        if place.point if is_point else place.rows:
            return
        held = Held(place, is_point, self.now)
        self.use(held)
        self.busy.add(held)
        if is_point:
            place.point = held
        else:
            place.rows = held
        self.held[held] = True
        self.size += held.size
        if self.size > self.budget:
            self.evict()

    def evict(self):
        """Drops points of least worth first; worths in the queue may be out of date, and grow as neighbours leave."""
        reasons, parents, queue = self.reasons(), {}, []
        if self.clock is None:
            self.start_clock(reasons)
        for held in self.held:
            parents.setdefault(held.place if held.is_point else held.place.above, set()).add(held)

        def push(held):
            if held not in self.busy and (held.is_point or not parents.get(held.place)):
                heapq.heappush(queue, (self.rank(held, reasons), held.used, -held.place.begin, id(held), held))

        for held in self.held:
            push(held)
        while self.size > self.budget * 15 / 16 and queue:
            rank, _, _, _, victim = heapq.heappop(queue)
            if victim not in self.held:
                continue
            if self.rank(victim, reasons) > rank:
                push(victim)
                continue
            self.clock = max(self.clock, rank)
            self.leave(victim)
            place = victim.place if victim.is_point else victim.place.above
            parents[place].remove(victim)
            if victim.is_point:
                reasons = self.reasons()
            while place.above and place.rows:  # rows that left, or have nothing below them any more
                push(place.rows)
                place = place.above

    def reasons(self):
        """The places that are a point or have one below them."""
        found = set()
        for held in self.held:
            place = held.place if held.is_point else None
            while place and place not in found:
                found.add(place)
                place = place.above
        return found

    def leave(self, held):
        del self.held[held]
        self.size -= held.size
        if held.is_point:
            held.place.point = None
        else:
            held.place.rows = None

    def start_clock(self, reasons):
        """As if the tier had been filled once since the oldest use."""
        points = [held for held in self.held if held.is_point]
        before, turn = 0, sum(self.worth(held, reasons) for held in points) / max(1, len(points))
        for held in sorted(self.held, key=lambda held: held.used):
            held.clock = turn * before / self.size
            before += held.size
        self.clock = turn

    def rank(self, held, reasons):
        worth = self.worth(held, reasons)
        return held.clock + worth if worth > 0 else float("-inf")

    def worth(self, held, reasons):
        if not held.is_point:
            return 1 if held.place in reasons else 0
        before = held.place.above
        while before.above and (held.outlook == AWAITED or not before.point):
            before = before.above
        saved = (held.place.end - before.end) / held.size
        return (saved / (self.share if held.outlook == PASSED else 1)) ** 0.5


class Session:
    def __init__(self, number, edits, calls, chance):
        self.number, self.edits, self.calls, self.random = number, edits, calls, chance
        self.messages, self.count, self.left = [("system", SYSTEM)], 0, 0

    def new(self, tokens):
        self.count += 1
        return (f"{self.number}.{self.count}", tokens)

    def step(self, cache):
        if self.left == 0:
            self.user()
        elif self.random.random() < self.edits and len(self.messages) - 1 > self.user_end:
            keep = self.random.randrange(self.user_end + 1, len(self.messages))
            self.messages = self.messages[:keep] + [self.new(RESULT)]
        self.left -= 1
        reply = self.new(THINKING + CALL)
        prefilled = cache.request(self.messages, reply, self.user_end)
        self.messages = self.messages + [reply] + ([self.new(RESULT)] if self.left > 0 else [])
        return prefilled

    def user(self):
        drop = {THINKING + CALL: CALL}
        self.messages = [(name + "'", drop[tokens]) if tokens in drop else (name, tokens) for name, tokens in self.messages]
        self.messages.append(self.new(USER))
        self.user_end = len(self.messages) - 1
        self.left = 1 + int(self.random.expovariate(1 / self.calls))

    def length(self):
        return sum(tokens for _, tokens in self.messages)


def play(share, budget, edits, calls, seed, sessions=4, steps=800):
    chance = random.Random(seed)
    cache = Cache(budget, share)
    talks = [Session(number, edits, calls, chance) for number in range(sessions)]
    prefilled, at = 0, 0
    for step in range(steps):
        if chance.random() < 0.2:
            at = chance.randrange(sessions)
        if talks[at].length() > LONGEST:
            talks[at] = Session(sessions + step, edits, calls, chance)
        prefilled += talks[at].step(cache)
    return prefilled


def row(calls, edits, budget):
    """By share, over all seeds together."""
    ideal = sum(play(1, 10**12, edits, calls, seed) for seed in SEEDS)
    return [sum(play(share, budget, edits, calls, seed) for seed in SEEDS) / ideal for share in SHARES]


def main():
    print("| calls per task | edits | budget | " + " | ".join(f"1/{share}" for share in SHARES) + " |")
    print("|---:|---:|---:|" + "---:|" * len(SHARES))
    for calls, edits in ((5, 0), (5, 0.02), (25, 0.02), (25, 0.1)):
        for budget in (200, 400, 800):
            cells = " | ".join(f"{figure:.2f}" for figure in row(calls, edits, budget * 1000))
            print(f"| {calls} | {edits:.0%} | {budget}k | {cells} |", flush=True)


if __name__ == "__main__":
    main()
