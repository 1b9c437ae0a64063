"""A store-and-forward message switch around beanstalkd, a broker that writes each job to its log before it says so.

    partner ── line ──► 7000: in the broker, in a database ── the same line back: it is ours now
                          in ──► out.A, out.B (each message goes out twice)
    partner ◄── line ── 7001: of out.A or out.B, kept until the partner says that it has it
    operator ── GET ──► 7080: how many wait

BROKER is the program, DATABASES are names of databases; what one of them has is enough. Names come from /etc/hosts.
"""

import http.server
import os
import queue
import socket
import socketserver
import subprocess
import sys
import threading
import time

BROKER_AT = ("127.0.0.1", 11300)
SPOOL = "/var/spool/switch"
LONGEST = 64 * 1024
# How long a database may take; it is dead after that.
DATABASE_S = 1.0
# Messages that wait for a database that does not answer.
MOST_WAITING = 100


class Broker:
    """A connection to beanstalkd."""

    def __init__(self):
        self.stream = socket.create_connection(BROKER_AT).makefile("rwb")

    def ask(self, command, body=None):
        self.stream.write(command + b"\r\n")
        if body is not None:
            self.stream.write(body + b"\r\n")
        self.stream.flush()
        answer = self.stream.readline().split()
        if not answer:
            raise ConnectionError("the broker has gone")
        return answer

    def put(self, tube, body):
        self.ask(b"use " + tube)
        answer = self.ask(b"put 0 0 3600 %d" % len(body), body)
        if answer[0] != b"INSERTED":
            raise RuntimeError(b" ".join(answer).decode())

    def take(self, seconds):
        """A job's number and its body; none after so many seconds."""
        answer = self.ask(b"reserve-with-timeout %d" % seconds)
        if answer[0] != b"RESERVED":
            return None
        body = self.stream.read(int(answer[2]) + 2)
        return answer[1], body[:-2]

    def watch(self, tube):
        self.ask(b"watch " + tube)
        self.ask(b"ignore default")

    def delete(self, job):
        self.ask(b"delete " + job)

    def waiting(self, tube):
        answer = self.ask(b"stats-tube " + tube)
        if answer[0] != b"OK":
            return 0
        text = self.stream.read(int(answer[1]) + 2).decode()
        counts = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        return int(counts["current-jobs-ready"]) + int(counts["current-jobs-reserved"])


class Database(threading.Thread):
    """A database over the doubled network: one thread that stores what it is handed, over a connection that is made anew when it broke.

    What comes while it is away is not stored there: it is kept by the other one, as it would be on its server.
    """

    def __init__(self, name):
        super().__init__(daemon=True)
        self.name, self.lines, self.stream = name, queue.Queue(MOST_WAITING), None
        self.start()

    def store(self, line, told):
        """Has it stored; `told` gets whether it was."""
        try:
            self.lines.put_nowait((line, told))
        except queue.Full:
            told.put(False)

    def run(self):
        while True:
            line, told = self.lines.get()
            told.put(self.is_stored(line))

    def is_stored(self, line):
        try:
            if self.stream is None:
                connection = socket.create_connection((self.name, 5432), timeout=DATABASE_S)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.stream = connection.makefile("rwb")
            self.stream.write(line)
            self.stream.flush()
            if self.stream.readline() == b"stored\n":
                return True
        except OSError:
            pass
        self.stream = None
        return False


class Intake(socketserver.StreamRequestHandler):
    """A partner that sends."""

    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        broker = Broker()
        for line in iter(lambda: self.rfile.readline(LONGEST), b""):
            # All get it; the message is kept here and in one database at least before its sender forgets it.
            told = queue.SimpleQueue()
            for database in self.server.databases:
                database.store(line, told)
            if any(told.get() for _ in self.server.databases):
                broker.put(b"in", line.rstrip(b"\n"))
                self.wfile.write(line)


class Delivery(socketserver.StreamRequestHandler):
    """A partner that receives: says which it is, gets lines, says "have" to each."""

    def handle(self):
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        broker = Broker()
        broker.watch(b"out." + self.rfile.readline(100).strip())
        while True:
            taken = broker.take(1)
            if taken is None:
                # An empty line finds out whether the partner is still there.
                self.wfile.write(b"\n")
                continue
            job, body = taken
            self.wfile.write(body + b"\n")
            if self.rfile.readline(100) != b"have\n":
                return
            broker.delete(job)


class Operator(http.server.BaseHTTPRequestHandler):
    """What waits, for an operator."""

    def do_GET(self):
        broker = Broker()
        text = "".join(f"{tube} {broker.waiting(tube.encode())}\n" for tube in ("in", "out.A", "out.B"))
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128

    def handle_error(self, request, client_address):
        print(f"{client_address}: {sys.exc_info()[1]}", file=sys.stderr)


def forward():
    """Each message that came in goes out to both addressees, then it is forgotten."""
    broker = Broker()
    broker.watch(b"in")
    while True:
        taken = broker.take(3600)
        if taken is None:
            continue
        job, body = taken
        for tube in (b"out.A", b"out.B"):
            broker.put(tube, body)
        broker.delete(job)


def main():
    words = ["-b", SPOOL, "-f", "0", "-l", BROKER_AT[0], "-p", str(BROKER_AT[1]), "-z", str(LONGEST)]
    broker = subprocess.Popen([os.environ["BROKER"], *words])
    while True:
        try:
            Broker()
            break
        except OSError:
            if broker.poll() is not None:
                sys.exit(f"the broker ended with {broker.returncode}")
            time.sleep(0.05)
    threads = [threading.Thread(target=forward, daemon=True)]
    databases = [Database(name) for name in os.environ["DATABASES"].split()]
    for port, handler in ((7000, Intake), (7001, Delivery), (7080, Operator)):
        server = Server(("", port), handler)
        server.databases = databases
        threads.append(threading.Thread(target=server.serve_forever, daemon=True))
    for thread in threads:
        thread.start()
    # Without its broker, or without who forwards, it is no switch: whoever looks after it starts it again.
    while broker.poll() is None and all(thread.is_alive() for thread in threads):
        time.sleep(0.2)
    sys.exit(1)


main()
