"""Inserts the numbers that follow the highest there is, each in a transaction of its own, and says each when it is committed.

insert.py DATABASE MODE    MODE: delete or wal
insert.py DATABASE         says what is wrong with it, then all numbers in it
"""

import sqlite3
import sys

database = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
if len(sys.argv) > 2:
    mode = database.execute(f"PRAGMA journal_mode={sys.argv[2]}").fetchone()[0]
    assert mode == sys.argv[2], mode
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, text TEXT)")
    highest = database.execute("SELECT coalesce(max(number), 0) FROM rows").fetchone()[0]
    for number in range(highest + 1, highest + 1_000_000):
        database.execute("INSERT INTO rows VALUES (?, ?)", (number, "x" * (number % 3000)))
        print(number, flush=True)
else:
    print(database.execute("PRAGMA integrity_check").fetchone()[0])
    for (number,) in database.execute("SELECT number FROM rows WHERE length(text) = number % 3000"):
        print(number)
