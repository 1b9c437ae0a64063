"""A database of messages: each line is a row of SQLite, on disk before it is answered."""

import socketserver
import sqlite3

FILE = "/var/lib/database/messages.db"


class Store(socketserver.StreamRequestHandler):
    def handle(self):
        rows = sqlite3.connect(FILE, timeout=30)
        # Written to disk with each row.
        rows.execute("pragma synchronous = full")
        for line in self.rfile:
            with rows:
                rows.execute("insert into message (text) values (?)", (line.decode(errors="replace"),))
            self.wfile.write(b"stored\n")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads = True, True


with sqlite3.connect(FILE) as first:
    first.execute("create table if not exists message (number integer primary key, text text)")
Server(("", 5432), Store).serve_forever()
