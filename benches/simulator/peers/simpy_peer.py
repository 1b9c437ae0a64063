"""SimPy: prints events per second. Its fastest documented way: processes that yield plain timeouts."""
import random
import sys
import time

import simpy

work, count = sys.argv[1], int(sys.argv[2])
events = 0


def timer(env, rng):
    global events
    while True:
        yield env.timeout(1 + rng.random() * 1e6)
        events += 1


def sharer(env, cpus):
    global events
    while True:
        with cpus.request() as request:
            yield request
            yield env.timeout(1000)
            events += 1


env = simpy.Environment()
rng = random.Random(7)
if work == "timers":
    for _ in range(count):
        env.process(timer(env, rng))
    env.run(until=1)
    until = 1e6 * max(1.0, 0.5 * 300_000 / count)
    step = until / 20
else:
    cpus = simpy.Resource(env, capacity=16)
    for _ in range(count):
        env.process(sharer(env, cpus))
    until, step = 1e9, 1e6
events = 0
began = time.perf_counter()
now = env.now
# For two seconds at most: what counts is the speed.
while time.perf_counter() - began < 2 and now < until:
    now += step
    env.run(until=now)
print(events / (time.perf_counter() - began))
