"""SimPy: prints events per second after as many as it is told. Its fastest documented way: processes that yield plain timeouts."""
import random
import sys
import time

import simpy

work, count, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
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
    step = 1e6 * wanted / count / 40
else:
    cpus = simpy.Resource(env, capacity=16)
    for _ in range(count):
        env.process(sharer(env, cpus))
    step = 1000 * wanted / 16 / 20
events = 0
began = time.perf_counter()
now = env.now
while events < wanted:
    now += step
    env.run(until=now)
print(events / (time.perf_counter() - began))
