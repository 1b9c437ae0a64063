"""A communication partner: sends messages of the thesis' sizes at a rate, receives both copies of each, and prints TAP.

    traffic.py --rate 20 --seconds 15 accumulation transfer operator

Sizes: of 100 messages 25 have 100 bytes, 20 have 1000, 50 have 1050, 5 have 15 000: 1500 on average. The first server that answers is
sent to; copies are taken from both. What is wrong is told on standard error.
"""

import argparse
import random
import socket
import sys
import threading
import time
import urllib.request

SWITCHES = [("127.0.0.1", 7100), ("127.0.0.1", 7200)]
SIZES = [100] * 25 + [1000] * 20 + [1050] * 50 + [15_000] * 5
# A message must be through the switch within so long, the operator be answered within so long.
TRANSFER_S = 1.0
# How long is waited for what is still on its way.
DRAIN_S = 15.0


class Traffic:
    def __init__(self):
        self.lock = threading.Lock()
        self.sent, self.accepted = {}, {}
        self.received = {"A": {}, "B": {}}
        self.doubled, self.is_over = 0, False
        self.run = f"{random.getrandbits(48):012x}"
        self.operator = []

    def receive(self, at, addressee):
        while not self.is_over:
            try:
                with socket.create_connection((at[0], at[1] + 1), timeout=5) as connection:
                    stream = connection.makefile("rwb")
                    stream.write(addressee.encode() + b"\n")
                    stream.flush()
                    for line in stream:
                        if line == b"\n":
                            if self.is_over:
                                return
                            continue
                        self.take(addressee, line, time.monotonic())
                        stream.write(b"have\n")
                        stream.flush()
            except OSError:
                time.sleep(0.1)

    def take(self, addressee, line, now):
        run, number = line.split(b" ", 2)[:2]
        if run.decode() != self.run:
            # Left over from another run: it had its place in the queue until now.
            return
        with self.lock:
            known = self.received[addressee]
            self.doubled += int(number) in known
            known.setdefault(int(number), now)

    def send(self, rate, seconds):
        sizes = SIZES * (int(rate * seconds) // len(SIZES) + 1)
        random.shuffle(sizes)
        stream, begins = None, time.monotonic()
        for number, size in enumerate(sizes[: int(rate * seconds)]):
            due = begins + number / rate
            time.sleep(max(0.0, due - time.monotonic()))
            head = f"{self.run} {number} ".encode()
            line = head + b"x" * (size - len(head) - 1) + b"\n"
            self.sent[number] = time.monotonic()
            for _ in range(2 * len(SWITCHES)):
                try:
                    if stream is None:
                        stream = self.connect()
                    stream.sendall(line)
                    break
                except OSError:
                    stream = None

    def connect(self):
        for at in SWITCHES:
            try:
                connection = socket.create_connection(at, timeout=2)
                threading.Thread(target=self.confirm, args=(connection,), daemon=True).start()
                return connection
            except OSError:
                continue
        raise OSError("no switch answers")

    def confirm(self, connection):
        connection.settimeout(None)
        try:
            for line in connection.makefile("rb"):
                self.accepted[int(line.split(b" ", 2)[1])] = time.monotonic()
        except OSError:
            pass

    def operate(self):
        while not self.is_over:
            begins = time.monotonic()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{SWITCHES[0][1] + 80}/", timeout=10).read()
                self.operator.append(time.monotonic() - begins)
            except OSError:
                self.operator.append(float("inf"))
            time.sleep(1)

    def missing(self):
        with self.lock:
            return sum(number not in copies for copies in self.received.values() for number in self.sent)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=20, help="messages per second")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--operator-ms", type=float, default=500, help="how soon an operator must be answered")
    parser.add_argument("check", nargs="+", choices=["accumulation", "transfer", "operator", "complete"])
    words = parser.parse_args()
    traffic = Traffic()
    for at in SWITCHES:
        for addressee in "AB":
            threading.Thread(target=traffic.receive, args=(at, addressee), daemon=True).start()
    threading.Thread(target=traffic.operate, daemon=True).start()
    traffic.send(words.rate, words.seconds)
    # What came in over the last second may be on its way; more has piled up.
    waiting = traffic.missing()
    until = time.monotonic() + DRAIN_S
    while traffic.missing() and time.monotonic() < until:
        time.sleep(0.05)
    traffic.is_over = True
    count, lost = len(traffic.sent), traffic.missing()
    took = [at - traffic.sent[number] for copies in traffic.received.values() for number, at in copies.items()]
    slowest = max(took, default=float("inf"))
    operator = max(traffic.operator, default=float("inf"))
    confirmed = sum(number not in traffic.accepted for number in traffic.sent)
    lines = {
        "accumulation": (waiting <= 2 * words.rate, f"{waiting} copies waited at the end of {count} messages"),
        "transfer": (slowest <= TRANSFER_S, f"the slowest copy took {slowest * 1e3:.0f} ms, at most {TRANSFER_S * 1e3:.0f}"),
        "operator": (operator * 1e3 <= words.operator_ms, f"an operator waited {operator * 1e3:.0f} ms at most"),
        "complete": (
            lost == traffic.doubled == confirmed == 0,
            f"{lost} copies lost, {traffic.doubled} came twice, {confirmed} messages were not confirmed",
        ),
    }
    print(f"1..{len(words.check)}")
    for number, check in enumerate(words.check, 1):
        holds, text = lines[check]
        print(f"{'ok' if holds else 'not ok'} {number} - {check}: {text}")
    print(f"mean size {sum(SIZES) / len(SIZES):.0f} bytes, {words.rate:g} a second", file=sys.stderr)


main()
