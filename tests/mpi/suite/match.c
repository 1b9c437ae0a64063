/* Which message a receive gets: any source and any tag, the order that each source's messages keep, the probes, and
 * requests that are taken back. */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

/* Length of message `i` from a rank: short ones and some long ones, so that different ways must keep one order. */
static size_t length_of(int from, int i)
{
    uint64_t key = key_of('L', (uint64_t)from, (uint64_t)i, 0);
    return key % 16 == 0 ? 20000 + key / 16 % 200000 : key % 700;
}

static uint64_t content_of(int from, int i)
{
    return key_of('M', (uint64_t)from, (uint64_t)i, 1);
}

enum { EACH = 60, LONGEST = 220000 };

/* All messages of ours to rank 0; the tag is `i` or one of few. */
static void send_series(MPI_Request *requests, char **memory, int tags)
{
    for (int i = 0; i < EACH; i++) {
        size_t bytes = length_of(rank, i);
        memory[i] = room(bytes);
        fill(memory[i], bytes, content_of(rank, i));
        MPI_Isend(memory[i], (int)bytes, MPI_BYTE, 0, i % tags, world, &requests[i]);
    }
}

static void end_series(MPI_Request *requests, char **memory)
{
    MPI_Waitall(EACH, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < EACH; i++)
        leave(memory[i]);
}

/* Looks at a message that must be the `i`th of its source. */
static void look(char *in, const MPI_Status *status, int i, int tags)
{
    int from = status->MPI_SOURCE;
    size_t bytes = length_of(from, i);
    CHECK_STATUS(status, from, i % tags, (long long)bytes);
    CHECK_IS(in, bytes, content_of(from, i), "message %d of rank %d was overtaken or came differently", i, from);
    memset(in, GAP, LONGEST);
}

/* Receives everything with both wildcards: each source's messages come in the order in which they were sent. */
static void take_by_wildcard(int tags)
{
    int *seen = calloc((size_t)size, sizeof *seen);
    char *in = room(LONGEST);
    for (int k = 0; seen && k < EACH * size; k++) {
        MPI_Status status;
        MARK();
        MPI_Recv(in, LONGEST, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status);
        if (CHECK(status.MPI_SOURCE >= 0 && status.MPI_SOURCE < size, "a message from rank %d", status.MPI_SOURCE))
            look(in, &status, seen[status.MPI_SOURCE]++, tags);
    }
    leave(in);
    free(seen);
}

static void any_source_any_tag(void)
{
    MPI_Request requests[EACH];
    char *memory[EACH];
    send_series(requests, memory, EACH);
    if (rank == 0)
        take_by_wildcard(EACH);
    end_series(requests, memory);
    MPI_Barrier(world);
    send_series(requests, memory, 1);
    if (rank == 0)
        take_by_wildcard(1);
    end_series(requests, memory);
}

/* Any source, but one tag after the other, the last first: nothing of another tag may slip in. */
static void any_source(void)
{
    enum { TAGS = 5 };
    MPI_Request requests[EACH];
    char *memory[EACH], *in = room(LONGEST);
    send_series(requests, memory, TAGS);
    MPI_Barrier(world);
    for (int tag = TAGS - 1; rank == 0 && tag >= 0; tag--) {
        int *seen = calloc((size_t)size, sizeof *seen);
        for (int k = 0; seen && k < EACH / TAGS * size; k++) {
            MPI_Status status;
            MARK();
            MPI_Recv(in, LONGEST, MPI_BYTE, MPI_ANY_SOURCE, tag, world, &status);
            look(in, &status, tag + TAGS * seen[status.MPI_SOURCE]++, TAGS);
        }
        free(seen);
    }
    end_series(requests, memory);
    leave(in);
}

/* One source after the other, any tag. */
static void any_tag(void)
{
    MPI_Request requests[EACH];
    char *memory[EACH], *in = room(LONGEST);
    send_series(requests, memory, 7);
    for (int from = size - 1; rank == 0 && from >= 0; from--)
        for (int i = 0; i < EACH; i++) {
            MPI_Status status;
            MARK();
            MPI_Recv(in, LONGEST, MPI_BYTE, from, MPI_ANY_TAG, world, &status);
            look(in, &status, i, 7);
        }
    end_series(requests, memory);
    leave(in);
}

/* Posted receives match in the order in which they were posted, wildcards among them. */
static void posted_order(void)
{
    enum { COUNT = 40 };
    int in[COUNT], out[COUNT], from = after_us(-1);
    MPI_Request receives[COUNT], sends[COUNT];
    for (int i = 0; i < COUNT; i++) {
        in[i] = -1;
        MPI_Irecv(&in[i], 1, MPI_INT, i % 3 ? from : MPI_ANY_SOURCE, i % 2 ? 4 : MPI_ANY_TAG, world, &receives[i]);
    }
    MARK();
    MPI_Barrier(world);
    for (int i = 0; i < COUNT; i++) {
        out[i] = (int)(content_of(rank, i) >> 33);
        MPI_Isend(&out[i], 1, MPI_INT, after_us(1), 4, world, &sends[i]);
    }
    MPI_Waitall(COUNT, receives, MPI_STATUSES_IGNORE);
    MPI_Waitall(COUNT, sends, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COUNT; i++) {
        int wanted = (int)(content_of(from, i) >> 33);
        CHECK(same(&in[i], &wanted, sizeof wanted), "receive %d got %d, wanted %d", i, in[i], wanted);
    }
}

/* Finds a message by a probe of some kind, then receives just it. */
static void take_probed(char *in, int kind, MPI_Status *status)
{
    int flag = 0, count;
    MPI_Message message = MPI_MESSAGE_NULL;
    MARK();
    if (kind == 0)
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, status);
    else if (kind == 1)
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &message, status);
    while (kind == 2 && !flag)
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &flag, status);
    while (kind == 3 && !flag)
        MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &flag, &message, status);
    MPI_Get_count(status, MPI_BYTE, &count);
    if (!CHECK(count <= LONGEST, "a probe found %d bytes", count))
        count = LONGEST;
    MPI_Status got;
    if (kind % 2 == 1) {
        MPI_Request request;
        MPI_Imrecv(in, count, MPI_BYTE, &message, &request);
        MPI_Wait(&request, &got);
    } else {
        MPI_Recv(in, count, MPI_BYTE, status->MPI_SOURCE, status->MPI_TAG, world, &got);
    }
    CHECK_STATUS(&got, status->MPI_SOURCE, status->MPI_TAG, count);
}

static void probe_of_kind(int kind)
{
    MPI_Request requests[EACH];
    char *memory[EACH], *in = room(LONGEST);
    int *seen = calloc((size_t)size, sizeof *seen);
    send_series(requests, memory, 11);
    for (int k = 0; rank == 0 && seen && k < EACH * size; k++) {
        MPI_Status status;
        take_probed(in, kind, &status);
        look(in, &status, seen[status.MPI_SOURCE]++, 11);
    }
    end_series(requests, memory);
    MPI_Barrier(world);
    leave(in);
    free(seen);
}

static void probe(void) { probe_of_kind(0); }
static void mprobe(void) { probe_of_kind(1); }
static void iprobe(void) { probe_of_kind(2); }
static void improbe(void) { probe_of_kind(3); }

/* A message taken out by a matched probe is nobody else's: a receive posted after it gets the next one. */
static void matched_is_gone(void)
{
    int first = 100 + rank, second = 200 + rank, got[2] = {-1, -1}, from = after_us(-1);
    MPI_Request sends[2];
    MPI_Message message;
    MPI_Isend(&first, 1, MPI_INT, after_us(1), 1, world, &sends[0]);
    MPI_Isend(&second, 1, MPI_INT, after_us(1), 1, world, &sends[1]);
    MARK();
    MPI_Mprobe(from, 1, world, &message, MPI_STATUS_IGNORE);
    MPI_Recv(&got[1], 1, MPI_INT, from, 1, world, MPI_STATUS_IGNORE);
    MPI_Mrecv(&got[0], 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Waitall(2, sends, MPI_STATUSES_IGNORE);
    int wanted[2] = {100 + from, 200 + from};
    CHECK(same(got, wanted, sizeof got), "matched %d and then received %d, wanted %d and %d", got[0], got[1], wanted[0],
          wanted[1]);
}

/* A probe for what is not there finds nothing, whatever else is waiting. */
static void probe_of_nothing(void)
{
    int value = rank, flag = 1;
    MPI_Request request;
    MPI_Isend(&value, 1, MPI_INT, after_us(1), 5, world, &request);
    MPI_Barrier(world);
    MARK();
    for (int i = 0; i < 200; i++) {
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Iprobe(after_us(-1), 6, world, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag, "a message of tag 6 was found, which nobody sent");
        MPI_Improbe(MPI_ANY_SOURCE, 7, world, &flag, &message, MPI_STATUS_IGNORE);
        CHECK(!flag && message == MPI_MESSAGE_NULL, "a message of tag 7 was found, which nobody sent");
    }
    MPI_Status status;
    MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status);
    CHECK_STATUS(&status, after_us(-1), 5, (long long)sizeof value);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Receives that are taken back get nothing; the messages go to those that stay. */
static void cancel_receive(void)
{
    enum { COUNT = 50 };
    int in[COUNT], out[COUNT], from = after_us(-1), next = 0;
    MPI_Request receives[COUNT], sends[COUNT];
    for (int i = 0; i < COUNT; i++) {
        in[i] = -1;
        MPI_Irecv(&in[i], 1, MPI_INT, i % 4 ? from : MPI_ANY_SOURCE, 8, world, &receives[i]);
    }
    for (int i = 0; i < COUNT; i += 2)
        MPI_Cancel(&receives[i]);
    MARK();
    for (int i = 0; i < COUNT; i += 2) {
        MPI_Status status;
        int cancelled = 0;
        MPI_Wait(&receives[i], &status);
        MPI_Test_cancelled(&status, &cancelled);
        CHECK(cancelled, "receive %d was not taken back though nothing had been sent", i);
    }
    MPI_Barrier(world);
    for (int i = 0; i < COUNT / 2; i++) {
        out[i] = rank * 1000 + i;
        MPI_Isend(&out[i], 1, MPI_INT, after_us(1), 8, world, &sends[i]);
    }
    for (int i = 1; i < COUNT; i += 2) {
        int wanted = from * 1000 + next++;
        MPI_Wait(&receives[i], MPI_STATUS_IGNORE);
        CHECK(same(&in[i], &wanted, sizeof wanted), "receive %d got %d, wanted %d", i, in[i], wanted);
        CHECK(in[i - 1] == -1, "receive %d was taken back but wrote %d", i - 1, in[i - 1]);
    }
    MPI_Waitall(COUNT / 2, sends, MPI_STATUSES_IGNORE);
}

/* A receive whose message has come cannot be taken back any more. */
static void cancel_too_late(void)
{
    int in = -1, out = 31 + rank, cancelled = 1, done = 0, token;
    MPI_Request request, send;
    MPI_Status status;
    MPI_Irecv(&in, 1, MPI_INT, after_us(-1), 2, world, &request);
    MPI_Isend(&out, 1, MPI_INT, after_us(1), 2, world, &send);
    MARK();
    while (!done)
        MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &cancelled);
    CHECK(!cancelled, "a receive that was over was taken back");
    CHECK_STATUS(&status, after_us(-1), 2, (long long)sizeof in);
    CHECK(in == 31 + after_us(-1), "the receive got %d", in);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&rank, 1, MPI_INT, after_us(1), 2, &token, 1, MPI_INT, after_us(-1), 2, world, &status);
    CHECK(token == after_us(-1), "the message after it was %d", token);
}

/* A send that is taken back either is gone for good or arrives whole. Open MPI 4.1.4 over libfabric, with any provider,
 * crashes in MPI_Cancel. */
static void cancel_send(void)
{
    long lengths[] = {4, 3000, 500000};
    for (int i = 0; i < 3; i++) {
        size_t bytes = (size_t)lengths[i];
        char *out = room(bytes), *in = room(bytes);
        /* Each time another one: a neighbour that is ahead sends already. */
        int gone = 0, theirs = 0, flag, tag = 10 + i;
        MPI_Request request;
        MPI_Status status;
        MARK();
        fill(out, bytes, key_of('C', (uint64_t)rank, bytes, 0));
        MPI_Isend(out, (int)bytes, MPI_BYTE, after_us(1), tag, world, &request);
        MPI_Cancel(&request);
        MPI_Test(&request, &flag, &status);
        if (flag)
            MPI_Test_cancelled(&status, &gone);
        MPI_Sendrecv(&gone, 1, MPI_INT, after_us(1), 4, &theirs, 1, MPI_INT, after_us(-1), 4, world, MPI_STATUS_IGNORE);
        if (!theirs) {
            MPI_Recv(in, (int)bytes, MPI_BYTE, after_us(-1), tag, world, &status);
            CHECK_STATUS(&status, after_us(-1), tag, (long long)bytes);
            CHECK_IS(in, bytes, key_of('C', (uint64_t)after_us(-1), bytes, 0), "a send not taken back came differently");
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(world);
        MPI_Iprobe(after_us(-1), tag, world, &flag, MPI_STATUS_IGNORE);
        CHECK(!flag, "a send that was taken back arrived all the same");
        leave(in);
        leave(out);
    }
}

const struct test_case match_cases[] = {{"any_source_any_tag", 1, any_source_any_tag},
                                        {"any_source", 1, any_source},
                                        {"any_tag", 1, any_tag},
                                        {"posted_order", 1, posted_order},
                                        {"probe", 1, probe},
                                        {"mprobe", 1, mprobe},
                                        {"iprobe", 1, iprobe},
                                        {"improbe", 1, improbe},
                                        {"matched_is_gone", 1, matched_is_gone},
                                        {"probe_of_nothing", 1, probe_of_nothing},
                                        {"cancel_receive", 1, cancel_receive},
                                        {"cancel_too_late", 1, cancel_too_late},
                                        {"cancel_send", 1, cancel_send},
                                        {0}};
