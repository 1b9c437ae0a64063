/* Many at once: thousands of requests in every way of waiting for them, everyone to everyone, and far more messages that
 * nobody has asked for yet than any buffer holds. */
#include <stdlib.h>

#include "fixture.h"

/* Requests under way at once, on each side. */
static int outstanding(void)
{
    return setting.full ? 4096 : 1024;
}

enum { ALL, ANY, SOME, TEST_ALL, TEST_ANY, TEST_SOME };

/* Ends all requests in one of the ways; counts how often each was said to be over. */
static void end_all(int way, MPI_Request *requests, int count, int *over)
{
    int *which = calloc((size_t)count, sizeof *which), left = count;
    while (which && left > 0) {
        int done = 0, flag = 0, one = MPI_UNDEFINED;
        if (way == ALL)
            MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        else if (way == ANY)
            MPI_Waitany(count, requests, &one, MPI_STATUS_IGNORE);
        else if (way == SOME)
            MPI_Waitsome(count, requests, &done, which, MPI_STATUSES_IGNORE);
        else if (way == TEST_ALL)
            MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE);
        else if (way == TEST_ANY)
            MPI_Testany(count, requests, &one, &flag, MPI_STATUS_IGNORE);
        else
            MPI_Testsome(count, requests, &done, which, MPI_STATUSES_IGNORE);
        if (way == ALL || (way == TEST_ALL && flag))
            for (; done < count; done++)
                which[done] = done;
        if (one != MPI_UNDEFINED)
            which[done++] = one;
        for (int i = 0; done != MPI_UNDEFINED && i < done; i++, left--)
            over[which[i]]++;
    }
    free(which);
}

static size_t length_at(int i)
{
    uint64_t key = key_of('N', (uint64_t)i, 0, 0);
    return key % 64 == 0 ? 30000 : 8 + key % 500;
}

/* Posts `count` receives from one side and as many sends to the other; tags in two orders, so that matching must search. */
static void exchange(int way, int count, bool posted_first)
{
    MPI_Request *requests = malloc(2 * (size_t)count * sizeof *requests);
    char **memory = malloc(2 * (size_t)count * sizeof *memory);
    int *over = calloc(2 * (size_t)count, sizeof *over), to = after_us(1), from = after_us(-1);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < count; i++) {
            int at = turn * count + i, tag = turn == (posted_first ? 0 : 1) ? count - 1 - i : i;
            bool receives = (turn == 0) == posted_first;
            size_t bytes = length_at(tag);
            memory[at] = room(bytes);
            if (receives) {
                MPI_Irecv(memory[at], (int)bytes, MPI_BYTE, from, tag, world, &requests[at]);
                continue;
            }
            fill(memory[at], bytes, key_of('K', (uint64_t)rank, (uint64_t)tag, (uint64_t)way));
            MPI_Isend(memory[at], (int)bytes, MPI_BYTE, to, tag, world, &requests[at]);
        }
    MARK();
    end_all(way, requests, 2 * count, over);
    for (int at = 0; at < 2 * count; at++) {
        int i = at % count, tag = (at < count) == posted_first ? count - 1 - i : i;
        CHECK(over[at] == 1 && requests[at] == MPI_REQUEST_NULL, "request %d was over %d times", at, over[at]);
        if ((at < count) == posted_first)
            CHECK_IS(memory[at], length_at(tag), key_of('K', (uint64_t)from, (uint64_t)tag, (uint64_t)way),
                     "message %d of %d came differently", tag, count);
        leave(memory[at]);
    }
    free(over);
    free(memory);
    free(requests);
}

static void outstanding_by(int way)
{
    /* Waiting for any walks through all requests each time: fewer of them. */
    int count = way == ANY || way == TEST_ANY ? outstanding() / 4 : outstanding();
    exchange(way, count, true);
    exchange(way, count, false);
    MPI_Barrier(world);
}

static void outstanding_all(void) { outstanding_by(ALL), outstanding_by(TEST_ALL); }
static void outstanding_any(void) { outstanding_by(ANY), outstanding_by(TEST_ANY); }
static void outstanding_some(void) { outstanding_by(SOME), outstanding_by(TEST_SOME); }

/* Everyone to everyone, a long one and short ones between each pair, all at once. */
static void everyone(void)
{
    enum { EACH = 8 };
    size_t count = (size_t)size * EACH;
    MPI_Request *requests = malloc(2 * count * sizeof *requests);
    char **in = malloc(count * sizeof *in), **out = malloc(count * sizeof *out);
    for (size_t at = 0; at < count; at++) {
        int peer = (int)at / EACH, i = (int)at % EACH;
        size_t bytes = i == 3 ? 300000 : length_at((int)at % 40);
        size_t theirs = i == 3 ? 300000 : length_at((rank * EACH + i) % 40);
        in[at] = room(theirs);
        out[at] = room(bytes);
        fill(out[at], bytes, key_of('E', (uint64_t)rank, (uint64_t)peer, (uint64_t)i));
        MPI_Isend(out[at], (int)bytes, MPI_BYTE, peer, 1, world, &requests[2 * at]);
        MPI_Irecv(in[at], (int)theirs, MPI_BYTE, peer, 1, world, &requests[2 * at + 1]);
    }
    MARK();
    MPI_Waitall((int)(2 * count), requests, MPI_STATUSES_IGNORE);
    for (size_t at = 0; at < count; at++) {
        int peer = (int)at / EACH, i = (int)at % EACH;
        size_t theirs = i == 3 ? 300000 : length_at((rank * EACH + i) % 40);
        CHECK_IS(in[at], theirs, key_of('E', (uint64_t)peer, (uint64_t)rank, (uint64_t)i),
                 "message %d of rank %d came differently", i, peer);
        leave(in[at]);
        leave(out[at]);
    }
    free(in);
    free(out);
    free(requests);
}

/* Sends `count` messages that nobody has asked for, lets the other side know past them, and has it take them from the
 * last to the first. */
static void flood(int count, size_t bytes)
{
    MPI_Request *requests = malloc((size_t)count * sizeof *requests);
    char *out = room((size_t)count * bytes), *in = room(bytes);
    int to = after_us(1), from = after_us(-1), bound = 32768;
    for (int i = 0; i < count; i++) {
        fill(out + (size_t)i * bytes, bytes, key_of('F', (uint64_t)rank, (uint64_t)i, bytes));
        MPI_Isend(out + (size_t)i * bytes, (int)bytes, MPI_BYTE, to, i % bound, world, &requests[i]);
    }
    for (int k = 0; k < 3; k++) {
        int token = k, theirs = -1;
        MARK();
        MPI_Sendrecv(&token, 1, MPI_INT, from, bound + k, &theirs, 1, MPI_INT, to, bound + k, world, MPI_STATUS_IGNORE);
        MPI_Sendrecv(&token, 1, MPI_INT, to, bound + k, &theirs, 1, MPI_INT, from, bound + k, world, MPI_STATUS_IGNORE);
        CHECK(theirs == k, "a message past %d others was %d, wanted %d", count, theirs, k);
    }
    /* From the last tag to the first; those of one tag keep their order. */
    int tags = count < bound ? count : bound;
    MARK();
    for (int tag = tags - 1; tag >= 0; tag--)
        for (int i = tag; i < count; i += bound) {
            MPI_Recv(in, (int)bytes, MPI_BYTE, from, tag, world, MPI_STATUS_IGNORE);
            CHECK_IS(in, bytes, key_of('F', (uint64_t)from, (uint64_t)i, bytes), "message %d of %d came differently", i,
                     count);
        }
    MARK();
    MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    leave(in);
    leave(out);
    free(requests);
    MPI_Barrier(world);
}

/* Bytes that each rank sends without being asked: 64 MiB where two do, less the more there are. */
static size_t flood_bytes(void)
{
    size_t all = setting.full ? 128 * (size_t)MIB : 16 * (size_t)MIB, each = all / (size_t)size;
    return each < all / 2 ? each : all / 2;
}

/* Taking them from the last to the first walks through all that wait, so the small ones are not too many. */
static void unexpected_small(void)
{
    flood((int)(flood_bytes() / 4096), 4096);
    flood(setting.full ? 20000 : 2000, 24);
}

static void unexpected_large(void)
{
    flood((int)(flood_bytes() / MIB), MIB);
}

const struct test_case many_cases[] = {{"outstanding_all", 1, outstanding_all},
                                       {"outstanding_any", 1, outstanding_any},
                                       {"outstanding_some", 1, outstanding_some},
                                       {"everyone", 1, everyone},
                                       {"unexpected_small", 1, unexpected_small},
                                       {"unexpected_large", 1, unexpected_large},
                                       {0}};
