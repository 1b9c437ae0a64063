"""Waits for locks that signals end or do not, one line each. Run natively and in a partition the lines must be the same.

Called with a folder of files `KIND-host` and `KIND-host-shm` that somebody outside has locked. Says `free` when those are to be given back, and
`done` when nobody here has any lock; ends with its input. Needs Python 3 and nothing else.
"""

import ctypes, errno, fcntl, os, signal, struct, sys, threading, time

C = ctypes.CDLL(None, use_errno=True)
KINDS = ["flock", "record", "description"]
PLACES = ["host", "own", "host-shm", "own-shm"]
ALL = [(kind, place) for kind in KINDS for place in PLACES]
SET_AND_WAIT = {"record": fcntl.F_SETLKW, "description": 38}
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
PATIENCE = [60]
STILL_WAITS = 200
# How those ended that have ended: the system tells it once.
ENDED = {}


def take(kind, place):
    """Waits for a lock; 0 or the error, as the system call has it."""
    fd = os.open("%s-%s" % (kind, place), os.O_RDWR)
    whole = ctypes.create_string_buffer(struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
    ctypes.set_errno(0)
    if kind == "flock":
        result = C.flock(fd, fcntl.LOCK_EX)
    else:
        result = C.fcntl(fd, SET_AND_WAIT[kind], whole)
    return ctypes.get_errno() if result < 0 else 0


def begin(act):
    """A process that does something and ends with what comes of it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            os._exit(act())
        finally:
            os._exit(250)
    return child


def named(code):
    return {0: "has it", STILL_WAITS: "waits"}.get(code) or errno.errorcode.get(code, str(code))


def outcome(child, patience=None, flags=0):
    """How a process ended or stopped, if it has by then."""
    until = time.monotonic() + (PATIENCE[0] if patience is None else patience)
    while child not in ENDED:
        found, status = os.waitpid(child, os.WNOHANG | flags)
        if found and os.WIFSTOPPED(status):
            return "stopped by %d" % os.WSTOPSIG(status)
        if found:
            by = os.WIFSIGNALED(status)
            ENDED[child] = "ended by %d" % os.WTERMSIG(status) if by else named(os.WEXITSTATUS(status))
            break
        if time.monotonic() > until:
            # Once somebody hangs who should not, others may as well.
            PATIENCE[0] = 1 if patience is None else PATIENCE[0]
            return "waits"
        time.sleep(0.02)
    return ENDED[child]


def say(name, *results):
    print("%s: %s" % (name, ", ".join(results)), flush=True)


def waits_still(children):
    """Once everybody has waited for a while."""
    time.sleep(1)
    return {which: outcome(child, 0) for which, child in children.items()}


def with_handler(restarts):
    def act(kind, place):
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.siginterrupt(signal.SIGALRM, not restarts)
        # Again and again: the first may come before it waits.
        signal.setitimer(signal.ITIMER_REAL, 0.3, 0.5)
        return take(kind, place)
    return act


def all_at_once(act):
    return {which: begin(lambda: act(*which)) for which in ALL}


def handlers_interrupt():
    for (kind, place), child in all_at_once(with_handler(False)).items():
        say("%s of %s, handler" % (kind, place), outcome(child))


def kills_end(number):
    children = all_at_once(take)
    before = waits_still(children)
    for child in children.values():
        os.kill(child, number)
    for (kind, place), child in children.items():
        say("%s of %s, signal %d" % (kind, place, number), before[kind, place], outcome(child))


def stops_stop(name, act):
    child = begin(act)
    time.sleep(0.5)
    os.kill(child, signal.SIGSTOP)
    stopped = outcome(child, flags=os.WUNTRACED)
    os.kill(child, signal.SIGCONT)
    goes_on = outcome(child, 0.5)
    os.kill(child, signal.SIGKILL)
    say(name, stopped, goes_on, outcome(child))


def debuggers_stop():
    child = begin(lambda: take("flock", "host"))
    time.sleep(0.5)
    seized = C.ptrace(SEIZE, child, None, None), C.ptrace(INTERRUPT, child, None, None)
    stopped = outcome(child, flags=os.WUNTRACED)
    C.ptrace(DETACH, child, None, None)
    goes_on = outcome(child, 0.5)
    os.kill(child, signal.SIGKILL)
    say("a debugger", str(seized), stopped, goes_on, outcome(child))


def beside_a_thread(then):
    """A process of which another thread waits."""
    def act():
        signal.signal(signal.SIGUSR1, lambda *_: None)
        said = []
        thread = threading.Thread(target=lambda: said.append(take("flock", "host")), daemon=True)
        thread.start()
        return then(said)
    return act


def the_other_thread_goes_on(said):
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(1)
    return said[0] if said else STILL_WAITS


def blocked_and_ignored_signals_do_nothing():
    wait = lambda: take("flock", "host")
    # What a process has of its parent it has from its first step on, however slow it is.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    children = {"blocked": begin(wait)}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    children["ignored"] = begin(wait)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    time.sleep(0.5)
    for child in children.values():
        os.kill(child, signal.SIGUSR1)
    return children


def own_locks():
    """A process that has those of this side until its pipe ends."""
    goes, stays = os.pipe()
    ready, said = os.pipe()
    def act():
        os.close(stays)
        taken = [take(kind, place) for kind, place in ALL if place.startswith("own")]
        os.write(said, b"r")
        os.read(goes, 1)
        return max(taken)
    child = begin(act)
    os.read(ready, 1)
    return child, stays


def main(folder):
    os.chdir(folder)
    for kind, place in ALL:
        os.close(os.open("%s-%s" % (kind, place), os.O_CREAT | os.O_RDWR, 0o644))
    holder, stays = own_locks()
    handlers_interrupt()
    for number in (signal.SIGKILL, signal.SIGINT):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        kills_end(number)
    stops_stop("a stop", lambda: take("flock", "host"))
    stops_stop("a stop of all threads", beside_a_thread(lambda said: time.sleep(1000)))
    debuggers_stop()
    say("a signal for another thread", outcome(begin(beside_a_thread(the_other_thread_goes_on))))
    children = all_at_once(with_handler(True))
    others = blocked_and_ignored_signals_do_nothing()
    before = waits_still(children)
    before_others = waits_still(others)
    os.write(stays, b"go")
    say("the holder", outcome(holder))
    print("free", flush=True)
    for (kind, place), child in children.items():
        say("%s of %s, handler that restarts" % (kind, place), before[kind, place], outcome(child))
    for name, child in others.items():
        say("a signal that is %s" % name, before_others[name], outcome(child))
    print("done", flush=True)
    sys.stdin.read()


main(sys.argv[1])
