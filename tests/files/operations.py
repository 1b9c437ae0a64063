"""Operations on files, one line each: what they gave, or the error. Run natively and in a partition the lines must be the same.

Called with a folder that is empty. Needs Python 3 and nothing else.
"""

import ctypes, errno, fcntl, mmap, os, select, signal, socket, sqlite3, stat, struct, subprocess, sys, time

C = ctypes.CDLL(None, use_errno=True)
OPERATIONS = []
AT_FDCWD, EXCHANGE, NOREPLACE, WHITEOUT = -100, 2, 1, 4
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE, COLLAPSE = 1, 2, 16, 8


def operation(act):
    OPERATIONS.append(act)
    return act


def call(name, *arguments):
    ctypes.set_errno(0)
    result = getattr(C, name)(*arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def write(name, content=b"x", mode=0o644):
    fd = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode)
    os.write(fd, content)
    os.close(fd)
    return name


def read(name):
    with open(name, "rb") as file:
        return file.read()


def mode(name):
    return oct(os.lstat(name).st_mode)


def renameat2(old, new, flags):
    return call("renameat2", AT_FDCWD, old.encode(), AT_FDCWD, new.encode(), flags)


def fallocate(fd, how, at, length):
    return call("fallocate", fd, how, ctypes.c_long(at), ctypes.c_long(length))


def as_user(user, act):
    """What a process of another user gets."""
    sys.stdout.flush()
    r, w = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            said = repr(act())
        except OSError as error:
            said = errno.errorcode[error.errno]
        os.write(w, said.encode())
        os._exit(0)
    os.close(w)
    said = os.read(r, 1000).decode()
    os.close(r)
    os.waitpid(child, 0)
    return said


def elsewhere(act):
    """The same of another process."""
    return as_user(os.getuid(), act)


def lock(fd, kind, start=0, length=0):
    fcntl.fcntl(fd, fcntl.F_SETLK, struct.pack("hhqqi4x", kind, 0, start, length, 0))
    return "locked"


# Data

@operation
def mapping_is_seen_by_pread():
    fd = os.open(write("m", b"\0" * 4096), os.O_RDWR)
    m = mmap.mmap(fd, 4096)
    m[0:3] = b"abc"
    return os.pread(fd, 3, 0)

@operation
def pwrite_is_seen_in_mapping():
    fd = os.open(write("m", b"\0" * 4096), os.O_RDWR)
    m = mmap.mmap(fd, 4096)
    m[0:3] = b"abc"
    os.pwrite(fd, b"xyz", 0)
    seen = m[0:3]
    m.flush()
    return seen, os.pread(fd, 3, 0)

@operation
def mapping_is_seen_by_another_process():
    fd = os.open(write("m", b"\0" * 8192), os.O_RDWR)
    m = mmap.mmap(fd, 8192)
    m[5000:5003] = b"abc"
    return elsewhere(lambda: read("m")[5000:5003])

@operation
def mapping_survives_close_and_unlink():
    fd = os.open(write("m", b"a" * 4096), os.O_RDWR)
    m = mmap.mmap(fd, 4096)
    os.close(fd)
    os.unlink("m")
    m[0:1] = b"b"
    return m[0:2]

@operation
def private_mapping_writes_nothing():
    fd = os.open(write("m", b"a" * 4096), os.O_RDWR)
    m = mmap.mmap(fd, 4096, mmap.MAP_PRIVATE)
    m[0:1] = b"b"
    return read("m")[:1]

@operation
def mapping_grows_with_the_file():
    fd = os.open(write("m", b"a" * 4096), os.O_RDWR)
    os.ftruncate(fd, 8192)
    m = mmap.mmap(fd, 8192)
    m[8191:8192] = b"z"
    return os.pread(fd, 2, 8190)

@operation
def what_is_behind_the_end_is_zero_after_growing():
    fd = os.open(write("m", b"a" * 100), os.O_RDWR)
    m = mmap.mmap(fd, 100)
    os.ftruncate(fd, 10)
    os.ftruncate(fd, 100)
    return os.pread(fd, 100, 0) == b"a" * 10 + b"\0" * 90

def made(name="s", flags=0):
    """A file that is new and written alone, as streams are."""
    return os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | flags, 0o644)


@operation
def shared_mapping_of_what_is_being_written():
    fd = made()
    os.write(fd, b"a" * 4096)
    return mmap.mmap(os.open("s", os.O_RDONLY), 4096, mmap.MAP_SHARED, mmap.PROT_READ)[:2]

@operation
def private_mapping_of_what_is_being_written():
    fd = made()
    os.write(fd, b"a" * 4096)
    other = os.open("s", os.O_RDONLY)
    before = mmap.mmap(other, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ)[:2]
    os.pwrite(fd, b"bb", 0)
    os.close(fd)
    os.close(other)
    return before, read("s")[:3], mmap.mmap(os.open("s", os.O_RDWR), 4096)[:3]

@operation
def mapping_of_what_was_being_written():
    fd = made()
    os.write(fd, b"a" * 4096)
    reader = os.open("s", os.O_RDONLY)
    os.close(fd)
    os.close(reader)
    writer = os.open("s", os.O_RDWR)
    m = mmap.mmap(writer, 4096)
    m[0:2] = b"bb"
    seen = os.pread(os.open("s", os.O_RDONLY), 3, 0)
    os.pwrite(writer, b"c", 1)
    os.pwrite(os.open("s", os.O_WRONLY), b"d", 2)
    return seen, m[0:4]

@operation
def shared_mapping_of_what_is_still_read_since_it_was_written():
    fd = made()
    os.write(fd, b"a" * 4096)
    reader = os.open("s", os.O_RDONLY)
    os.close(fd)
    m = mmap.mmap(os.open("s", os.O_RDWR), 4096)
    m[0:2] = b"bb"
    return os.pread(reader, 3, 0)

@operation
def what_is_being_written_is_read_at_once():
    fd = made()
    other = os.open("s", os.O_RDONLY)
    seen = 0
    for number in range(300):
        os.pwrite(fd, b"%03d" % number, 0)
        seen += os.pread(other, 3, 0) == b"%03d" % number
        os.pwrite(fd, b"%03d" % number, number * 3)
        seen += os.fstat(other).st_size == number * 3 + 3
    return seen

@operation
def what_is_being_written_is_written_by_others():
    fd = made()
    os.write(fd, b"a" * 10)
    both = os.open("s", os.O_RDWR)
    two = made(flags=os.O_APPEND)
    os.pwrite(both, b"b" * 8, 0)
    os.close(fd)
    os.write(two, b"c" * 4)
    third = os.open("s", os.O_RDWR)
    os.pwrite(third, b"d", 1)
    return os.pread(both, 20, 0), os.pread(third, 20, 0)

@operation
def emptied_and_written_again_after_a_reader():
    seen = []
    for letter in b"abc":
        fd = made()
        os.write(fd, bytes([letter]) * 5000)
        other = os.open("s", os.O_RDONLY)
        private = mmap.mmap(other, 5000, mmap.MAP_PRIVATE, mmap.PROT_READ)
        seen.append(private[4999:])
        os.close(other)
        os.pwrite(fd, b"x", 4999)
        private.close()
        os.close(fd)
        seen.append(read("s")[4998:])
    return seen

@operation
def new_file_is_filled_from_another():
    source = os.open(write("a", b"0123456789" * 1000), os.O_RDONLY)
    fd = made()
    os.sendfile(fd, source, 0, 5000)
    m = mmap.mmap(source, 10000, mmap.MAP_SHARED, mmap.PROT_READ)
    os.write(fd, m)
    r, w = os.pipe()
    os.write(w, b"through a pipe")
    os.splice(r, fd, 14)
    os.writev(fd, [b"in", b" parts"])
    os.copy_file_range(source, fd, 7, 3)
    data = read("s")
    return len(data), data[:12], data[5000:5012], data[15000:]

@operation
def new_file_is_cut_and_reserved():
    fd = made()
    os.write(fd, b"a" * 9000)
    os.ftruncate(fd, 5000)
    fallocate(fd, KEEP_SIZE | PUNCH_HOLE, 0, 4096)
    os.lseek(fd, 0, os.SEEK_END)
    os.write(fd, b"b")
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
    os.pwrite(fd, b"c", 0)
    return read("s")[4095:4098], read("s")[4999:], os.fstat(fd).st_size

@operation
def append_goes_to_the_end():
    one = os.open("a", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    two = os.open("a", os.O_WRONLY | os.O_APPEND)
    for number in range(4):
        os.write(one if number % 2 else two, b"%d" % number)
    return read("a")

@operation
def append_taken_from_an_open_file():
    fd = os.open(write("a", b"0123456789"), os.O_RDWR | os.O_APPEND)
    fcntl.fcntl(fd, fcntl.F_SETFL, 0)
    os.pwrite(fd, b"AB", 0)
    return read("a")

@operation
def append_given_to_an_open_file():
    fd = os.open(write("a", b"0123456789"), os.O_WRONLY)
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
    os.write(fd, b"AB")
    elsewhere(lambda: os.write(os.open("a", os.O_WRONLY | os.O_APPEND), b"CD"))
    os.write(fd, b"EF")
    return read("a")

@operation
def append_by_two_processes_loses_nothing():
    def add(letter):
        fd = os.open("a", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        for _ in range(50):
            os.write(fd, letter)
    elsewhere(lambda: add(b"a"))
    add(b"b")
    return len(read("a"))

@operation
def truncate_by_name():
    os.truncate(write("t", b"abcdef"), 3)
    return read("t")

@operation
def open_truncates():
    write("t", b"abcdef")
    os.close(os.open("t", os.O_WRONLY | os.O_TRUNC))
    return os.stat("t").st_size

@operation
def write_beyond_the_end_leaves_a_hole():
    fd = os.open("h", os.O_CREAT | os.O_RDWR, 0o644)
    os.pwrite(fd, b"x", 1 << 20)
    return os.fstat(fd).st_size, os.fstat(fd).st_blocks < 100, os.pread(fd, 2, 10)

@operation
def seek_finds_data_and_holes():
    fd = os.open("h", os.O_CREAT | os.O_RDWR, 0o644)
    os.pwrite(fd, b"x" * 65536, 1 << 20)
    os.fsync(fd)
    return os.lseek(fd, 0, os.SEEK_DATA), os.lseek(fd, 1 << 20, os.SEEK_HOLE), os.lseek(fd, 0, os.SEEK_HOLE)

@operation
def hole_is_punched():
    fd = os.open(write("h", b"x" * (1 << 20)), os.O_RDWR)
    fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 1 << 19)
    return os.pread(fd, 2, 0), os.pread(fd, 2, 1 << 19), os.fstat(fd).st_size

@operation
def range_is_zeroed():
    fd = os.open(write("h", b"x" * 65536), os.O_RDWR)
    fallocate(fd, ZERO_RANGE, 0, 4096)
    return os.pread(fd, 1, 4095), os.pread(fd, 1, 4096)

@operation
def space_is_reserved():
    fd = os.open("h", os.O_CREAT | os.O_RDWR, 0o644)
    os.posix_fallocate(fd, 0, 100000)
    return os.fstat(fd).st_size, os.fstat(fd).st_blocks >= 190

@operation
def space_is_reserved_behind_the_end():
    fd = os.open("h", os.O_CREAT | os.O_RDWR, 0o644)
    fallocate(fd, KEEP_SIZE, 0, 100000)
    return os.fstat(fd).st_size

@operation
def range_is_copied():
    one, two = os.open(write("a", b"abc" * 1000), os.O_RDONLY), os.open("b", os.O_CREAT | os.O_RDWR, 0o644)
    return os.copy_file_range(one, two, 3000, 0, 0), read("b") == read("a")

@operation
def file_is_sent():
    one, two = os.open(write("a", b"abc" * 1000), os.O_RDONLY), os.open("b", os.O_CREAT | os.O_RDWR, 0o644)
    return os.sendfile(two, one, 0, 3000), read("b") == read("a")

@operation
def direct_write_and_read():
    fd = os.open("d", os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o644)
    m = mmap.mmap(-1, 4096)
    m[:] = b"d" * 4096
    os.write(fd, m)
    os.lseek(fd, 0, 0)
    return os.readv(fd, [m]), read("d")[:2]

@operation
def written_in_many_parts():
    fd = os.open("v", os.O_CREAT | os.O_RDWR, 0o644)
    count = os.writev(fd, [b"ab", b"", b"cd" * 5000])
    return count, os.preadv(fd, [bytearray(3), bytearray(20000)], 0)

@operation
def large_file_has_its_content():
    with open("l", "wb") as file:
        for number in range(1024):
            file.write(struct.pack("I", number) * 1024)
    with open("l", "rb") as file:
        return all(file.read(4096) == struct.pack("I", number) * 1024 for number in range(1024))

@operation
def very_large_offsets():
    fd = os.open("l", os.O_CREAT | os.O_RDWR, 0o644)
    os.pwrite(fd, b"end", 1 << 40)
    return os.fstat(fd).st_size, os.pread(fd, 9, (1 << 40) - 1)

@operation
def synced():
    fd = os.open("s", os.O_CREAT | os.O_RDWR, 0o644)
    os.write(fd, b"x")
    os.fsync(fd), os.fdatasync(fd)
    folder = os.open(".", os.O_RDONLY)
    os.fsync(folder), os.sync()
    return "synced"

@operation
def sync_flags():
    fd = os.open("s", os.O_CREAT | os.O_RDWR | os.O_SYNC, 0o644)
    return os.write(fd, b"abc"), read("s")

@operation
def read_only_descriptor_is_not_written():
    return os.write(os.open(write("a"), os.O_RDONLY), b"x")

@operation
def write_only_descriptor_is_not_read():
    return os.read(os.open(write("a"), os.O_WRONLY), 1)

# Names

@operation
def unlinked_file_is_used():
    fd = os.open(write("u", b"before"), os.O_RDWR)
    os.unlink("u")
    os.pwrite(fd, b"after!", 0)
    os.ftruncate(fd, 5)
    os.fchmod(fd, 0o600)
    return os.pread(fd, 10, 0), os.fstat(fd).st_nlink, oct(os.fstat(fd).st_mode), os.path.exists("u")

@operation
def unlinked_file_is_opened_again():
    fd = os.open(write("u", b"content"), os.O_RDWR)
    os.unlink("u")
    return os.read(os.open("/proc/self/fd/%d" % fd, os.O_RDONLY), 20)

@operation
def replaced_file_stays_what_it_was():
    fd = os.open(write("r", b"old"), os.O_RDONLY)
    os.rename(write("n", b"new"), "r")
    return os.read(fd, 9), read("r")

@operation
def anonymous_file():
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.write(fd, b"x")
    call("linkat", AT_FDCWD, b"/proc/self/fd/%d" % fd, AT_FDCWD, b"named", 0x400)
    return read("named")

@operation
def exclusive_creation():
    write("e")
    return os.open("e", os.O_CREAT | os.O_EXCL | os.O_WRONLY)

@operation
def names_are_exchanged():
    write("a", b"A"), write("b", b"B")
    renameat2("a", "b", EXCHANGE)
    return read("a"), read("b")

@operation
def folder_is_exchanged_with_a_file():
    os.mkdir("d"), write("d/in"), write("f", b"F")
    renameat2("d", "f", EXCHANGE)
    return read("d"), os.listdir("f")

@operation
def rename_replaces_nothing_when_asked():
    write("a"), write("b")
    return renameat2("a", "b", NOREPLACE)

@operation
def rename_leaves_a_whiteout():
    renameat2(write("a"), "b", WHITEOUT)
    return mode("a")

@operation
def folder_over_full_folder():
    os.makedirs("a"), os.makedirs("b/c")
    return os.rename("a", "b")

@operation
def folder_over_empty_folder():
    os.makedirs("a/x"), os.makedirs("b")
    os.rename("a", "b")
    return os.listdir("b")

@operation
def folder_into_itself():
    os.makedirs("a/b")
    return os.rename("a", "a/b/c")

@operation
def rename_to_another_name_of_the_same():
    os.link(write("a"), "b")
    os.rename("a", "b")
    return sorted(os.listdir("."))

@operation
def open_file_is_renamed():
    fd = os.open(write("a", b"1"), os.O_RDWR)
    os.rename("a", "b")
    os.write(fd, b"2")
    return read("b"), os.fstat(fd).st_ino == os.stat("b").st_ino

@operation
def links_count():
    os.link(write("a"), "b")
    first = os.stat("a").st_nlink, os.stat("a").st_ino == os.stat("b").st_ino
    os.unlink("a")
    return first, os.stat("b").st_nlink, read("b")

@operation
def symbolic_links():
    write("a", b"content"), os.symlink("a", "l"), os.symlink("nowhere", "n"), os.symlink("loop", "loop")
    return read("l"), os.readlink("n"), os.path.exists("n"), mode("l")

@operation
def link_loop():
    os.symlink("loop", "loop")
    return os.open("loop", os.O_RDONLY)

@operation
def link_is_not_followed():
    os.symlink(write("a"), "l")
    return os.open("l", os.O_RDONLY | os.O_NOFOLLOW)

@operation
def long_target():
    os.symlink("x/" * 2000, "l")
    return len(os.readlink("l"))

@operation
def long_names():
    write("n" * 255)
    return len(os.listdir(".")[0])

@operation
def too_long_name():
    return write("n" * 256)

@operation
def odd_names():
    names = [b"a b", b"\xff\xfe", "ü".encode(), b"-", b"...", b"new\nline", b"\\"]
    for name in names:
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644))
    return sorted(os.listdir(b".")) == sorted(names)

@operation
def missing_file():
    return os.open("nothing", os.O_RDONLY)

@operation
def file_as_folder():
    write("a")
    return os.open("a/b", os.O_RDONLY)

@operation
def trailing_slash():
    write("a")
    return os.stat("a/")

@operation
def folder_is_not_written():
    os.mkdir("d")
    return os.open("d", os.O_WRONLY)

@operation
def full_folder_is_not_removed():
    os.makedirs("a/b")
    return os.rmdir("a")

@operation
def folder_is_not_unlinked():
    os.mkdir("a")
    return os.unlink("a")

@operation
def file_is_not_removed_as_folder():
    return os.rmdir(write("a"))

@operation
def removed_working_folder():
    os.mkdir("d")
    def inside():
        os.chdir("d")
        os.rmdir("../d")
        return os.stat(".").st_nlink, os.listdir(".")
    return elsewhere(inside)

@operation
def making_in_a_removed_folder():
    os.mkdir("d")
    fd = os.open("d", os.O_RDONLY)
    os.rmdir("d")
    return os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=fd)

@operation
def many_entries():
    os.mkdir("d")
    for number in range(700):
        os.close(os.open("d/%d" % number, os.O_CREAT | os.O_WRONLY))
    listed = sorted(entry.name for entry in os.scandir("d"))
    for name in listed:
        os.unlink("d/" + name)
    return len(listed), len(os.listdir("d"))

@operation
def removal_while_listing():
    os.mkdir("d")
    for number in range(300):
        write("d/%d" % number)
    with os.scandir("d") as entries:
        for entry in entries:
            os.unlink(entry.path)
    return os.listdir("d")

@operation
def kinds_are_listed():
    os.mkdir("d"), write("f"), os.symlink("f", "l"), os.mkfifo("p")
    return sorted((e.name, e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False), e.is_symlink()) for e in os.scandir("."))

@operation
def inode_numbers_agree():
    write("a"), os.mkdir("d")
    return all(e.inode() == os.lstat(e.name).st_ino for e in os.scandir("."))

@operation
def folder_links_count():
    os.makedirs("d/a"), os.mkdir("d/b")
    return os.stat("d").st_nlink

@operation
def deep_tree():
    path = "/".join(["deep"] * 60)
    os.makedirs(path)
    write(path + "/f", b"down")
    return read(path + "/f")

@operation
def created_relative_to_a_descriptor():
    os.mkdir("d")
    folder = os.open("d", os.O_RDONLY)
    os.rename("d", "e")
    os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    return os.listdir("e")

# Attributes

@operation
def nanoseconds():
    os.utime(write("t"), ns=(1_234_567_890_123_456_789, 987_654_321_987_654_321))
    found = os.stat("t")
    return found.st_atime_ns, found.st_mtime_ns

@operation
def times_before_1970():
    os.utime(write("t"), ns=(-1_500_000_000, -5_000_000_000))
    found = os.stat("t")
    return found.st_atime_ns, found.st_mtime_ns

@operation
def one_time_only():
    write("t")
    os.utime("t", ns=(5, 5))
    call("utimensat", AT_FDCWD, b"t", struct.pack("qqqq", 0, (1 << 30) - 2, 7, 9), 0)
    return os.stat("t").st_atime_ns, os.stat("t").st_mtime_ns

@operation
def times_of_a_link():
    os.symlink("x", "l")
    os.utime("l", ns=(5_000_000_006, 7_000_000_008), follow_symlinks=False)
    return os.lstat("l").st_mtime_ns

@operation
def writing_moves_times():
    os.utime(write("t"), ns=(1, 1))
    before = os.stat("t").st_ctime_ns
    time.sleep(0.05)
    os.write(os.open("t", os.O_WRONLY), b"y")
    found = os.stat("t")
    return found.st_mtime_ns > 1, found.st_ctime_ns > before

@operation
def setting_what_is_set_moves_the_time_of_change():
    write("t"), os.mkdir("d"), os.mkfifo("p"), os.symlink("x", "l")
    before = [os.lstat(name).st_ctime_ns for name in ("t", "t", "d", "p", "l")]
    time.sleep(0.05)
    os.chmod("t", 0o644), os.chmod("d", stat.S_IMODE(os.stat("d").st_mode))
    os.chmod("p", stat.S_IMODE(os.stat("p").st_mode)), os.lchown("l", os.getuid(), -1)
    after = [os.lstat("t").st_ctime_ns]
    time.sleep(0.05)
    os.chown("t", -1, -1)
    after += [os.lstat(name).st_ctime_ns for name in ("t", "d", "p", "l")]
    return [new > old for old, new in zip(before, after)], after[1] > after[0]

@operation
def making_moves_the_folders_time():
    os.mkdir("d")
    os.utime("d", ns=(1, 1))
    write("d/x")
    return os.stat("d").st_mtime_ns > 1

@operation
def modes():
    for bits in [0, 0o400, 0o644, 0o755, 0o777]:
        write("m%o" % bits, mode=0o600), os.chmod("m%o" % bits, bits)
    return [mode("m%o" % bits) for bits in [0, 0o400, 0o644, 0o755, 0o777]]

@operation
def mask_of_modes():
    old = os.umask(0o027)
    try:
        write("f", mode=0o666), os.mkdir("d", 0o777), os.mkfifo("p", 0o666)
        return mode("f"), mode("d"), mode("p")
    finally:
        os.umask(old)

@operation
def no_mask_of_modes():
    old = os.umask(0)
    try:
        write("f", mode=0o777), os.mkdir("d", 0o777), os.mkfifo("p", 0o666), os.mkdir("t", 0o1777)
        return mode("f"), mode("d"), mode("p"), mode("t")
    finally:
        os.umask(old)

@operation
def created_unwritable_and_written():
    fd = os.open("r", os.O_CREAT | os.O_WRONLY, 0o400)
    return os.write(fd, b"x"), mode("r")

@operation
def set_id_and_sticky_bits():
    write("s"), os.mkdir("d")
    os.chmod("s", 0o6755), os.chmod("d", 0o1777)
    return mode("s"), mode("d")

@operation
def set_id_at_creation():
    old = os.umask(0)
    os.close(os.open("s", os.O_CREAT | os.O_WRONLY, 0o4755))
    os.umask(old)
    return mode("s")

@operation
def set_id_goes_when_somebody_else_writes():
    write("s"), os.chmod("s", 0o6777), os.chmod(".", 0o777)
    as_user(4000, lambda: os.write(os.open("s", os.O_WRONLY), b"y"))
    return mode("s")

@operation
def set_id_goes_when_somebody_else_truncates():
    write("s"), os.chmod("s", 0o6777), os.chmod(".", 0o777)
    as_user(4000, lambda: os.truncate("s", 0))
    return mode("s")

@operation
def set_id_goes_with_the_owner():
    write("s"), os.chmod("s", 0o6755)
    os.chown("s", 4000, 4000)
    return mode("s"), os.stat("s").st_uid, os.stat("s").st_gid

@operation
def group_is_inherited():
    os.mkdir("d"), os.chown("d", -1, 4001), os.chmod("d", 0o2777)
    write("d/f"), os.mkdir("d/e")
    return os.stat("d/f").st_gid, os.stat("d/e").st_gid, mode("d/e")

@operation
def owners():
    write("o"), os.mkdir("d")
    os.chown("o", 4000, 4001), os.chown("d", 4002, 4003)
    return [(os.stat(name).st_uid, os.stat(name).st_gid) for name in ("o", "d")]

@operation
def owner_of_an_open_file():
    fd = os.open(write("o"), os.O_RDWR)
    os.fchown(fd, 4000, 4001)
    os.unlink("o")
    os.fchown(fd, 4002, -1)
    return os.fstat(fd).st_uid, os.fstat(fd).st_gid

@operation
def owner_of_a_link():
    os.symlink("x", "l")
    os.lchown("l", 4000, 4000)
    return os.lstat("l").st_uid

@operation
def owner_of_a_pipe():
    os.mkfifo("p")
    os.chown("p", 4000, 4000)
    return os.stat("p").st_uid

@operation
def others_own_what_they_make():
    os.chmod(".", 0o777)
    as_user(4000, lambda: (write("theirs"), os.mkdir("their folder")))
    return [(os.stat(name).st_uid, mode(name)) for name in ("theirs", "their folder")]

@operation
def others_may_not_write():
    write("mine", mode=0o644)
    return as_user(4000, lambda: os.open("mine", os.O_WRONLY))

@operation
def others_may_not_read():
    os.chmod(write("mine"), 0o600)
    return as_user(4000, lambda: os.open("mine", os.O_RDONLY))

@operation
def others_may_not_enter():
    os.mkdir("d"), write("d/f"), os.chmod("d", 0o700), os.chmod(".", 0o755)
    return as_user(4000, lambda: os.stat("d/f"))

@operation
def others_may_not_change_modes():
    return as_user(4000, lambda name=write("mine"): os.chmod(name, 0o777))

@operation
def sticky_folder_protects():
    os.mkdir("d"), os.chmod("d", 0o1777), write("d/mine"), os.chmod(".", 0o755)
    return as_user(4000, lambda: os.unlink("d/mine"))

@operation
def root_reads_what_has_no_rights():
    os.chmod(write("n", b"hidden"), 0)
    return read("n")

@operation
def root_writes_what_is_read_only():
    os.chmod(write("n", b"old"), 0o444)
    os.write(os.open("n", os.O_WRONLY), b"new")
    return read("n"), mode("n")

@operation
def root_enters_closed_folder():
    os.mkdir("d"), write("d/f", b"in"), os.chmod("d", 0)
    found = read("d/f"), os.listdir("d")
    os.unlink("d/f"), os.chmod("d", 0o700)
    return found

@operation
def access_is_answered():
    os.chmod(write("a"), 0o444)
    return os.access("a", os.R_OK), os.access("a", os.X_OK), os.access("none", os.F_OK)

@operation
def file_system_is_described():
    found = os.statvfs(".")
    return found.f_namemax, found.f_bavail > 0, found.f_blocks > 0

@operation
def attributes_of_users():
    write("x")
    os.setxattr("x", "user.one", b"1"), os.setxattr("x", "user.two", b"2" * 1000)
    first = sorted(os.listxattr("x")), os.getxattr("x", "user.one"), len(os.getxattr("x", "user.two"))
    os.removexattr("x", "user.one")
    return first, os.listxattr("x")

@operation
def missing_attribute():
    return os.getxattr(write("x"), "user.none")

@operation
def attribute_is_created_once():
    os.setxattr(write("x"), "user.a", b"1", os.XATTR_CREATE)
    return os.setxattr("x", "user.a", b"2", os.XATTR_CREATE)

@operation
def attribute_of_a_link():
    os.symlink("x", "l")
    return os.setxattr("l", "user.a", b"1", follow_symlinks=False)

@operation
def trusted_attribute():
    os.setxattr(write("x"), "trusted.a", b"1")
    return os.getxattr("x", "trusted.a")

@operation
def capabilities_of_a_file():
    os.setxattr(write("x"), "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
    return len(os.getxattr("x", "security.capability"))

@operation
def access_control_list():
    entries = [(1, 6, -1), (2, 6, 4000), (4, 4, -1), (16, 6, -1), (32, 4, -1)]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    os.setxattr(write("x"), "system.posix_acl_access", value)
    return len(os.getxattr("x", "system.posix_acl_access"))

# Special files

@operation
def pipe_with_a_name():
    os.mkfifo("p")
    child = subprocess.Popen(["sh", "-c", "echo through > p"])
    with open("p", "rb") as pipe:
        said = pipe.read()
    return said, child.wait(), mode("p")

@operation
def pipe_nobody_reads():
    os.mkfifo("p")
    return os.open("p", os.O_WRONLY | os.O_NONBLOCK)

@operation
def socket_with_a_name():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("s"), listener.listen()
    client = socket.socket(socket.AF_UNIX)
    client.connect("s")
    client.sendall(b"hello")
    return listener.accept()[0].recv(10), stat.S_ISSOCK(os.stat("s").st_mode)

@operation
def socket_nobody_listens_at():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("s"), listener.close()
    return socket.socket(socket.AF_UNIX).connect("s")

@operation
def socket_name_is_taken():
    socket.socket(socket.AF_UNIX).bind("s")
    return socket.socket(socket.AF_UNIX).bind("s")

@operation
def character_device():
    os.mknod("c", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    return mode("c")

@operation
def block_device():
    os.mknod("b", 0o600 | stat.S_IFBLK, os.makedev(7, 200))
    return mode("b")

@operation
def plain_file_by_mknod():
    os.mknod("f", 0o640 | stat.S_IFREG)
    return mode("f")

@operation
def program_is_executed():
    write("run", b"#!/bin/sh\necho ran $1\n", 0o755)
    return subprocess.run(["./run", "it"], stdout=subprocess.PIPE).stdout

@operation
def program_being_written_is_busy():
    write("run", read("/bin/true"), 0o755)
    fd = os.open("run", os.O_WRONLY)
    return subprocess.run(["./run"]).returncode, fd

@operation
def change_is_notified():
    fd = call("inotify_init1", os.O_NONBLOCK)
    call("inotify_add_watch", fd, b".", 0x100)
    write("noticed")
    return struct.unpack("iIII", os.read(fd, 4096)[:16])[1] == 0x100

# Locks

@operation
def record_lock_excludes():
    fd = os.open(write("k", b"x" * 100), os.O_RDWR)
    lock(fd, fcntl.F_WRLCK, 0, 10)
    other = lambda start: elsewhere(lambda: lock(os.open("k", os.O_RDWR), fcntl.F_WRLCK, start, 10))
    return other(5), other(10)

@operation
def record_locks_are_shared_by_readers():
    fd = os.open(write("k"), os.O_RDWR)
    lock(fd, fcntl.F_RDLCK)
    return (elsewhere(lambda: lock(os.open("k", os.O_RDONLY), fcntl.F_RDLCK)),
            elsewhere(lambda: lock(os.open("k", os.O_RDWR), fcntl.F_WRLCK)))

@operation
def record_lock_goes_with_any_close():
    fd = os.open(write("k"), os.O_RDWR)
    lock(fd, fcntl.F_WRLCK)
    os.close(os.open("k", os.O_RDWR))
    return elsewhere(lambda: lock(os.open("k", os.O_RDWR), fcntl.F_WRLCK))

@operation
def record_lock_goes_with_the_close_of_another_kind():
    def goes(flags):
        fd = os.open(write("k"), os.O_RDWR)
        lock(fd, fcntl.F_WRLCK)
        os.close(os.open("k", flags))
        gone = elsewhere(lambda: lock(os.open("k", os.O_RDWR), fcntl.F_WRLCK))
        os.close(fd)
        return gone
    return goes(os.O_RDONLY), goes(os.O_WRONLY), goes(os.O_WRONLY | os.O_TRUNC)

@operation
def attributes_of_a_file_without_rights():
    os.setxattr(write("a"), "user.a", b"1"), os.chmod("a", 0)
    return os.getxattr("a", "user.a") if os.getuid() == 0 else None

@operation
def files_of_others_that_their_owner_may_not_read():
    for name, mode in ("g", 0o060), ("o", 0o006), ("n", 0):
        write(name), os.chown(name, 1001, 1002), os.chmod(name, mode)
    time.sleep(1.1)
    times = [(os.stat("g").st_ctime_ns, time.sleep(1.1))[0] for _ in range(3)]
    tried = [as_user(user, lambda: os.close(os.open(name, os.O_RDWR))) for name in "gon" for user in (0, 1001, 1002, 1003)]
    return tried, len(set(times))

@operation
def record_lock_goes_with_its_process():
    write("k")
    elsewhere(lambda: lock(os.open("k", os.O_RDWR), fcntl.F_WRLCK))
    return lock(os.open("k", os.O_RDWR), fcntl.F_WRLCK)

@operation
def record_lock_is_not_inherited():
    fd = os.open(write("k"), os.O_RDWR)
    lock(fd, fcntl.F_WRLCK)
    return elsewhere(lambda: lock(fd, fcntl.F_WRLCK))

@operation
def record_lock_is_split():
    fd = os.open(write("k", b"x" * 100), os.O_RDWR)
    lock(fd, fcntl.F_WRLCK, 0, 30), lock(fd, fcntl.F_UNLCK, 10, 10)
    return [elsewhere(lambda: lock(os.open("k", os.O_RDWR), fcntl.F_WRLCK, at, 10)) for at in (0, 10, 20)]

@operation
def holder_of_a_lock_is_named():
    fd = os.open(write("k"), os.O_RDWR)
    lock(fd, fcntl.F_WRLCK)
    own = os.getpid()
    def ask():
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
        kind, _, _, _, process = struct.unpack("hhqqi4x", fcntl.fcntl(os.open("k", os.O_RDWR), fcntl.F_GETLK, asked))
        return kind == fcntl.F_WRLCK, process == own
    return elsewhere(ask)

@operation
def waiting_for_a_lock():
    fd = os.open(write("k"), os.O_RDWR)
    lock(fd, fcntl.F_WRLCK)
    child = os.fork()
    if child == 0:
        fcntl.fcntl(os.open("k", os.O_RDWR), fcntl.F_SETLKW, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        write("got it")
        os._exit(0)
    time.sleep(0.3)
    before = os.path.exists("got it")
    lock(fd, fcntl.F_UNLCK)
    os.waitpid(child, 0)
    return before, os.path.exists("got it")

@operation
def deadlock_is_found():
    fd = os.open(write("k", b"xx"), os.O_RDWR)
    lock(fd, fcntl.F_WRLCK, 0, 1)
    ready, said = os.pipe()
    child = os.fork()
    wait = lambda fd, at: fcntl.fcntl(fd, fcntl.F_SETLKW, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, at, 1, 0))
    if child == 0:
        fd = os.open("k", os.O_RDWR)
        lock(fd, fcntl.F_WRLCK, 1, 1)
        os.write(said, b"r")
        signal.alarm(3)
        wait(fd, 0)
        os._exit(0)
    os.read(ready, 1)
    time.sleep(0.3)
    try:
        lock(fd, fcntl.F_WRLCK, 1, 1) if os.environ.get("NO_DEADLOCK") else wait(fd, 1)
        return "granted"
    finally:
        os.kill(child, signal.SIGKILL)
        lock(fd, fcntl.F_UNLCK)
        os.waitpid(child, 0)

@operation
def flock_excludes():
    fd = os.open(write("k"), os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return elsewhere(lambda: fcntl.flock(os.open("k", os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB))

@operation
def folder_is_locked():
    fcntl.flock(os.open(".", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    return "locked"

@operation
def folder_is_locked_for_a_part():
    return lock(os.open(".", os.O_RDONLY), fcntl.F_RDLCK)

@operation
def folders_of_the_guest_are_locked():
    for name in ("/tmp", "/proc", "/usr"):
        fcntl.flock(os.open(name, os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)
    return "locked"

@operation
def flock_is_inherited_and_goes_with_the_last():
    fd = os.open(write("k"), os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX)
    first = elsewhere(lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB))
    again = os.dup(fd)
    os.close(fd)
    other = lambda: elsewhere(lambda: fcntl.flock(os.open("k", os.O_RDWR), fcntl.LOCK_SH | fcntl.LOCK_NB))
    held = other()
    os.close(again)
    return first, held, other()

@operation
def description_locks_exclude():
    one, two = os.open(write("k"), os.O_RDWR), os.open("k", os.O_RDWR)
    asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
    fcntl.fcntl(one, 37, asked)
    return fcntl.fcntl(two, 37, asked)

@operation
def database_with_rollback():
    base = sqlite3.connect("db")
    base.execute("create table t (n)")
    with base:
        base.executemany("insert into t values (?)", [(n,) for n in range(100)])
    return base.execute("select sum(n) from t").fetchone(), base.execute("pragma integrity_check").fetchone()

@operation
def database_with_write_ahead_log():
    base = sqlite3.connect("db")
    mode = base.execute("pragma journal_mode=wal").fetchone()
    base.execute("create table t (n)")
    with base:
        base.executemany("insert into t values (?)", [(n,) for n in range(100)])
    return mode, elsewhere(lambda: sqlite3.connect("db").execute("select sum(n) from t").fetchone())

@operation
def flags_of_a_file():
    fcntl.ioctl(os.open(write("f"), os.O_RDONLY), 0x80086601, bytes(8))  # FS_IOC_GETFLAGS
    return "told"

@operation
def extents_of_a_file():
    asked = struct.pack("=QQLLLL", 0, 1 << 40, 1, 0, 1, 0) + bytes(56)
    fcntl.ioctl(os.open(write("f"), os.O_RDONLY), 0xC020660B, asked)  # FS_IOC_FIEMAP, FIEMAP_FLAG_SYNC
    return "told"

@operation
def reading_that_may_not_wait():
    fd = os.open(write("f", b"abc"), os.O_RDWR)
    os.pread(fd, 3, 0)
    return os.preadv(fd, [bytearray(3)], 0, os.RWF_NOWAIT)

@operation
def time_of_birth():
    told = ctypes.create_string_buffer(256)
    call("statx", AT_FDCWD, write("f").encode(), 0, 0x800, told)
    return bool(struct.unpack_from("=L", told)[0] & 0x800)

@operation
def direct_writing_at_an_odd_place():
    fd = os.open("f", os.O_CREAT | os.O_WRONLY | os.O_DIRECT, 0o644)
    return os.pwrite(fd, b"abc", 1)

@operation
def reading_without_a_time_of_access():
    os.utime(write("f", b"abc"), (5, 5))
    os.read(os.open("f", os.O_RDONLY | os.O_NOATIME), 3)
    return os.stat("f").st_atime == 5

@operation
def bit_of_a_group_that_may_not_execute_it():
    def room(name):
        fallocate(os.open(name, os.O_RDWR), 0, 0, 4096)

    said = []
    for change in (write, lambda name: os.truncate(name, 1), room):
        write("f")
        os.chmod("f", 0o2767)
        as_user(1234, lambda: change("f"))
        said.append(mode("f"))
    return said

@operation
def appending_by_a_flag_of_one_write():
    fd = os.open(write("f", b"0123456789"), os.O_RDWR)
    os.pwritev(fd, [b"Z"], 0, os.RWF_APPEND)
    return read("f")

@operation
def growing_over_what_was_stored_behind_the_end():
    fd = os.open(write("f", b"x" * 8192), os.O_RDWR)
    memory = mmap.mmap(fd, 8192)
    os.ftruncate(fd, 5000)
    memory[5500] = 67
    os.pwrite(fd, b"x", 7000)
    os.fsync(fd)
    return read("f")[5500]

@operation
def seeking_beyond_what_a_file_can_hold():
    return os.lseek(os.open(write("f"), os.O_RDWR), 1 << 60, os.SEEK_SET)

@operation
def being_told_of_what_is_made_with_its_number():
    fd = call("fanotify_init", 0x200 | 2, os.O_RDONLY)  # FAN_REPORT_FID | FAN_NONBLOCK
    call("fanotify_mark", fd, 1, ctypes.c_ulong(0x40000100), AT_FDCWD, b".")  # FAN_MARK_ADD; FAN_CREATE | FAN_ONDIR
    write("f")
    return len(os.read(fd, 4096)) > 0


def main(folder):
    os.umask(0o022)
    for number, act in enumerate(OPERATIONS):
        place = os.path.join(folder, "%d" % number)
        os.mkdir(place)
        os.chdir(place)
        try:
            said = repr(act())
        except OSError as error:
            said = errno.errorcode.get(error.errno, str(error.errno))
        except Exception as error:
            said = "%s: %s" % (type(error).__name__, error)
        print("%s: %s" % (act.__name__, said), flush=True)


main(os.path.abspath(sys.argv[1]))
