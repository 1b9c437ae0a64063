"""Faults of a host, made in a guest of our own: prepare, huge N, swap, unswap, clock WORD, cpu 0|1, governor NAME, fill, free, move PID FROM TO."""
import ctypes, os, struct, subprocess, sys, time

LIBC = ctypes.CDLL(None, use_errno=True)
SYS = '/run/faults-sys'
HOG = '/run/faults-hog'
GROUP = '/sys/fs/cgroup/faults'


def write(path, text):
    with open(path, 'w') as file:
        file.write(text)


def checked(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), what)


def prepare():
    """Governors that can be changed, of CPUs that have none, over the kernel's own files; huge pages; a clock that is kept."""
    os.makedirs(SYS, exist_ok=True)
    subprocess.run(['mount', '-t', 'sysfs', 'none', SYS], check=True)
    real = SYS + '/devices/system/cpu'
    for number in range(3):
        folder = f'/run/faults-over/cpu{number}/cpufreq'
        os.makedirs(folder)
        write(folder + '/scaling_governor', 'performance\n')
    cpus = '/sys/devices/system/cpu'
    subprocess.run(['mount', '-t', 'overlay', 'none', '-o', f'lowerdir=/run/faults-over:{real}', cpus], check=True)
    with open('/proc/swaps') as swaps:
        if len(swaps.readlines()) < 2:
            subprocess.run(['/sbin/mkswap', '/dev/vda'], check=True)
    huge('8')
    clock('good')


def huge(count):
    write('/proc/sys/vm/nr_hugepages', count)
    with open('/proc/sys/vm/nr_hugepages') as file:
        assert file.read().strip() == count


def hog(mib, group):
    """A process in a group that has so much memory until it is told to go."""
    code = f"import os,time; a=bytearray(os.urandom(4096))*256*{mib}; open('{HOG}','w').write(str(os.getpid())); time.sleep(1e6)"
    # Whoever calls us waits until our output ends.
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([sys.executable, '-c', code], start_new_session=True, stdout=quiet, stderr=quiet)
    write(group + '/cgroup.procs', str(process.pid))
    while not os.path.exists(HOG):
        assert process.poll() is None
        time.sleep(0.05)


def unhog():
    with open(HOG) as file:
        pid = int(file.read())
    os.remove(HOG)
    os.kill(pid, 9)
    while os.path.exists(f'/proc/{pid}') and ' Z ' not in open(f'/proc/{pid}/stat').read():
        time.sleep(0.05)


def swap():
    subprocess.run(['/sbin/swapon', '/dev/vda'], check=True)
    write('/sys/fs/cgroup/cgroup.subtree_control', '+memory')
    os.makedirs(GROUP, exist_ok=True)
    hog(64, GROUP)
    try:
        write(GROUP + '/memory.reclaim', '32M')
    except OSError:
        pass  # Not all of it could be.


def unswap():
    unhog()
    subprocess.run(['/sbin/swapoff', '/dev/vda'], check=True)


def clock(word):
    """adjtimex(2): modes, maximal error in microseconds, status."""
    adj_maxerror, adj_status, sta_pll, sta_unsync = 0x4, 0x10, 0x1, 0x40
    timex = bytearray(256)
    struct.pack_into('I', timex, 0, adj_maxerror | adj_status)
    struct.pack_into('l', timex, 24, 5_000_000 if word == 'drift' else 1000)
    struct.pack_into('i', timex, 40, sta_pll | (sta_unsync if word == 'unsync' else 0))
    buffer = (ctypes.c_char * len(timex)).from_buffer(timex)
    checked(LIBC.adjtimex(buffer), 'adjtimex')


def fill():
    """All but what a verification needs."""
    with open('/proc/meminfo') as file:
        lines = dict(line.split(':') for line in file)
    write('/sys/fs/cgroup/cgroup.subtree_control', '+memory')
    os.makedirs(GROUP, exist_ok=True)
    hog(int(lines['MemAvailable'].split()[0]) // 1024 - 350, GROUP)


def cpu(state):
    write(SYS + '/devices/system/cpu/cpu1/online', state)


def governor(name):
    write('/run/faults-over/cpu1/cpufreq/scaling_governor', name + '\n')


def move(pid, one, other):
    """migrate_pages(2)."""
    old, new = (ctypes.c_ulong(1 << int(node)) for node in (one, other))
    checked(LIBC.syscall(256, int(pid), 64, ctypes.byref(old), ctypes.byref(new)), 'migrate_pages')


ACTS = {
    'prepare': prepare, 'huge': huge, 'swap': swap, 'unswap': unswap, 'clock': clock, 'cpu': cpu, 'governor': governor,
    'fill': fill, 'free': unhog, 'move': move,
}
ACTS[sys.argv[1]](*sys.argv[2:])
