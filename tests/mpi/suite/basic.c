/* Messages between two ranks: contents at every size, nothing at all, to nobody, to oneself, both ways at once, again and
 * again, too long for the receiver, with the largest tag. */
#include <stdlib.h>

#include "fixture.h"

enum { LARGEST = 8 * MIB };

/* There and back between each even rank and the odd one after it; the content differs each way. */
static void ping_pong(void)
{
    int peer = rank ^ 1;
    long *sizes = sizes_up_to(LARGEST);
    for (int i = 0; sizes[i] >= 0 && peer < size; i++) {
        size_t bytes = (size_t)sizes[i];
        char *out = room(bytes), *in = room(bytes);
        MPI_Status status;
        MARK();
        fill(out, bytes, key_of('p', (uint64_t)rank, (uint64_t)i, bytes));
        if (rank % 2 == 0)
            MPI_Send(out, (int)bytes, MPI_BYTE, peer, i, world);
        MPI_Recv(in, (int)bytes, MPI_BYTE, peer, i, world, &status);
        if (rank % 2 == 1)
            MPI_Send(out, (int)bytes, MPI_BYTE, peer, i, world);
        CHECK_STATUS(&status, peer, i, (long long)bytes);
        CHECK_IS(in, bytes, key_of('p', (uint64_t)peer, (uint64_t)i, bytes), "%zu bytes came differently", bytes);
        leave(in);
        leave(out);
    }
    free(sizes);
    MPI_Barrier(world);
}

/* The receive is posted before the message is sent: the way without a copy in between. */
static void expected(void)
{
    long *sizes = sizes_up_to(LARGEST);
    int to = after_us(1), from = after_us(-1);
    for (int i = 0; sizes[i] >= 0; i++) {
        size_t bytes = (size_t)sizes[i];
        char *out = room(bytes), *in = room(bytes);
        MPI_Request request;
        MPI_Irecv(in, (int)bytes, MPI_BYTE, from, i, world, &request);
        fill(out, bytes, key_of('e', (uint64_t)rank, (uint64_t)to, bytes));
        MARK();
        MPI_Barrier(world);
        MPI_Send(out, (int)bytes, MPI_BYTE, to, i, world);
        MPI_Status status;
        MPI_Wait(&request, &status);
        CHECK_STATUS(&status, from, i, (long long)bytes);
        CHECK_IS(in, bytes, key_of('e', (uint64_t)from, (uint64_t)rank, bytes), "%zu bytes came differently", bytes);
        leave(in);
        leave(out);
    }
    free(sizes);
}

/* The message is there (or announced) before the receive is posted, which is larger than it. */
static void late_receive(void)
{
    long *sizes = sizes_up_to(LARGEST);
    int to = after_us(1), from = after_us(-1);
    for (int i = 0; sizes[i] >= 0; i++) {
        size_t bytes = (size_t)sizes[i], more = bytes + 1 + (size_t)i;
        char *out = room(bytes), *in = room(more);
        MPI_Request request;
        MPI_Status status;
        fill(out, bytes, key_of('l', (uint64_t)rank, (uint64_t)to, bytes));
        MPI_Isend(out, (int)bytes, MPI_BYTE, to, i, world, &request);
        MARK();
        MPI_Barrier(world);
        MPI_Recv(in, (int)more, MPI_BYTE, from, i, world, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_STATUS(&status, from, i, (long long)bytes);
        CHECK_IS(in, bytes, key_of('l', (uint64_t)from, (uint64_t)rank, bytes), "%zu bytes came differently", bytes);
        for (size_t k = bytes; k < more; k++)
            CHECK((unsigned char)in[k] == GAP, "byte %zu of a message of %zu was written", k, bytes);
        leave(in);
        leave(out);
    }
    free(sizes);
}

static void zero_bytes(void)
{
    enum { TIMES = 100 };
    char nothing = 1, *mark_of = room(8);
    for (int i = 0; i < TIMES; i++) {
        MPI_Status status;
        MARK();
        MPI_Sendrecv(i % 2 ? &nothing : NULL, 0, MPI_INT, after_us(1), i, i % 3 ? &nothing : NULL, 0, MPI_INT,
                     after_us(-1), i, world, &status);
        CHECK_STATUS(&status, after_us(-1), i, 0);
        CHECK(nothing == 1, "an empty message changed a byte");
    }
    leave(mark_of);
}

static void nobody(void)
{
    int value = 7, flag = 0;
    MPI_Status status;
    MPI_Request requests[2];
    MARK();
    MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 3, world);
    MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 3, world, &status);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MPI_Isend(&value, 1, MPI_INT, MPI_PROC_NULL, 3, world, &requests[0]);
    MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 3, world, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Probe(MPI_PROC_NULL, MPI_ANY_TAG, world, &status);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    MPI_Iprobe(MPI_PROC_NULL, 5, world, &flag, &status);
    CHECK(flag, "a probe of nobody's message found none");
    CHECK(value == 7, "a receive from nobody wrote %d", value);
    MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, &value, 1, MPI_INT, MPI_PROC_NULL, 0, world, &status);
    CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
}

/* The same on the communicator that has nobody else. */
static void to_oneself_alone(char *out, size_t bytes)
{
    char *in = room(bytes);
    MPI_Request request;
    MPI_Status status;
    MPI_Isend(out, (int)bytes, MPI_BYTE, 0, 2, MPI_COMM_SELF, &request);
    MPI_Recv(in, (int)bytes, MPI_BYTE, 0, 2, MPI_COMM_SELF, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_STATUS(&status, 0, 2, (long long)bytes);
    CHECK_IS(in, bytes, key_of('s', (uint64_t)rank, bytes, 0), "%zu own bytes came differently", bytes);
    leave(in);
}

/* To oneself, before and after the receive is posted, mixed with a peer's messages of the same tag. */
static void to_self(void)
{
    long *sizes = sizes_up_to(MIB);
    for (int i = 0; sizes[i] >= 0; i++) {
        size_t bytes = (size_t)sizes[i];
        char *out = room(bytes), *in[2] = {room(bytes), room(bytes)};
        MPI_Request requests[4];
        MARK();
        fill(out, bytes, key_of('s', (uint64_t)rank, bytes, 0));
        MPI_Isend(out, (int)bytes, MPI_BYTE, rank, 9, world, &requests[0]);
        MPI_Irecv(in[0], (int)bytes, MPI_BYTE, rank, 9, world, &requests[1]);
        MPI_Irecv(in[1], (int)bytes, MPI_BYTE, rank, 9, world, &requests[2]);
        MPI_Isend(out, (int)bytes, MPI_BYTE, rank, 9, world, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        for (int k = 0; k < 2; k++) {
            CHECK_IS(in[k], bytes, key_of('s', (uint64_t)rank, bytes, 0), "%zu own bytes came differently", bytes);
            leave(in[k]);
        }
        to_oneself_alone(out, bytes);
        leave(out);
    }
    free(sizes);
}

static void send_receive(void)
{
    long *sizes = sizes_up_to(LARGEST);
    for (int i = 0; sizes[i] >= 0; i++) {
        size_t bytes = (size_t)sizes[i];
        char *out = room(bytes), *in = room(bytes);
        int to = after_us(i), from = after_us(-i);
        MPI_Status status;
        MARK();
        fill(out, bytes, key_of('x', (uint64_t)rank, (uint64_t)to, bytes));
        MPI_Sendrecv(out, (int)bytes, MPI_BYTE, to, 1, in, (int)bytes, MPI_BYTE, from, 1, world, &status);
        CHECK_STATUS(&status, from, 1, (long long)bytes);
        CHECK_IS(in, bytes, key_of('x', (uint64_t)from, (uint64_t)rank, bytes), "%zu bytes came differently", bytes);
        MPI_Sendrecv_replace(out, (int)bytes, MPI_BYTE, to, 2, from, 2, world, &status);
        CHECK_STATUS(&status, from, 2, (long long)bytes);
        CHECK_IS(out, bytes, key_of('x', (uint64_t)from, (uint64_t)rank, bytes), "%zu replaced bytes differ", bytes);
        leave(in);
        leave(out);
    }
    free(sizes);
}

/* Requests that are made once and started again and again, each kind of send among them. */
static void persistent(void)
{
    enum { TIMES = 20, KINDS = 3 };
    static const size_t lengths[KINDS] = {5, 3000, 300000};
    char *out[KINDS], *in[KINDS];
    MPI_Request requests[2 * KINDS];
    int to = after_us(1), from = after_us(-1);
    for (int k = 0; k < KINDS; k++) {
        int bytes = (int)lengths[k];
        out[k] = room(lengths[k]);
        in[k] = room(lengths[k]);
        MPI_Recv_init(in[k], bytes, MPI_BYTE, from, k, world, &requests[k]);
        if (k == 0)
            MPI_Send_init(out[k], bytes, MPI_BYTE, to, k, world, &requests[KINDS + k]);
        else
            MPI_Ssend_init(out[k], bytes, MPI_BYTE, to, k, world, &requests[KINDS + k]);
    }
    for (int time = 0; time < TIMES; time++) {
        MARK();
        for (int k = 0; k < KINDS; k++)
            fill(out[k], lengths[k], key_of('o', (uint64_t)rank, (uint64_t)k, (uint64_t)time));
        MPI_Startall(KINDS, requests);
        for (int k = 0; k < KINDS; k++)
            MPI_Start(&requests[KINDS + k]);
        MPI_Waitall(2 * KINDS, requests, MPI_STATUSES_IGNORE);
        for (int k = 0; k < KINDS; k++)
            CHECK_IS(in[k], lengths[k], key_of('o', (uint64_t)from, (uint64_t)k, (uint64_t)time),
                     "round %d of a started request of %zu bytes came differently", time, lengths[k]);
    }
    for (int k = 0; k < KINDS; k++) {
        leave(in[k]);
        leave(out[k]);
    }
    for (int k = 0; k < 2 * KINDS; k++)
        MPI_Request_free(&requests[k]);
}

/* Sends `bytes` to a receive of `less`, before or after that is posted, and a second message whole. */
static void send_too_long(MPI_Comm comm, size_t bytes, size_t less, bool late, bool look_behind)
{
    char *out = room(bytes), *in = room(bytes), *after = room(bytes);
    int wrong, class = 0, to = after_us(1), from = after_us(-1);
    MPI_Request request, requests[2];
    MARK();
    fill(out, bytes, key_of('t', (uint64_t)rank, bytes, 0));
    if (!late)
        MPI_Irecv(in, (int)less, MPI_BYTE, from, 1, comm, &request);
    MPI_Barrier(comm);
    MPI_Isend(out, (int)bytes, MPI_BYTE, to, 1, comm, &requests[0]);
    MPI_Isend(out, (int)bytes, MPI_BYTE, to, 1, comm, &requests[1]);
    MPI_Barrier(comm);
    if (late)
        MPI_Irecv(in, (int)less, MPI_BYTE, from, 1, comm, &request);
    wrong = MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Error_class(wrong, &class);
    CHECK(class == MPI_ERR_TRUNCATE, "%zu bytes into %zu (%s) gave error class %d, wanted MPI_ERR_TRUNCATE", bytes, less,
          late ? "posted late" : "posted before", class);
    MPI_Recv(after, (int)bytes, MPI_BYTE, from, 1, comm, MPI_STATUS_IGNORE);
    CHECK_IS(after, bytes, key_of('t', (uint64_t)from, bytes, 0), "the message after a truncated one differs");
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    size_t written = 0;
    for (size_t i = less; i < bytes; i++)
        written += (unsigned char)in[i] != GAP;
    CHECK(written == 0 || !look_behind, "%zu bytes into %zu: %zu bytes behind the receive's memory were overwritten", bytes,
          less, written);
    leave(after);
    leave(in);
    leave(out);
}

static void all_too_long(bool look_behind)
{
    long *sizes = sizes_up_to(MIB);
    MPI_Comm comm;
    MPI_Comm_dup(world, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (int i = 0; sizes[i] >= 0; i++)
        for (int late = 0; late < 2; late++)
            send_too_long(comm, (size_t)sizes[i] + 1, ((size_t)sizes[i] + 1) / (i % 2 ? 2 : 50), late, look_behind);
    MPI_Comm_free(&comm);
    free(sizes);
}

/* A message longer than the receive is an error of this receive, and of nothing after it. (With one rank, ob1 of Open MPI
 * 4.1.4 forgets the error of receives posted before.) */
static void too_long(void) { all_too_long(false); }

/* Nor is anything written behind the receive's memory. Open MPI 4.1.4's own ob1 does so from its RDMA limit on. */
static void too_long_stays(void) { all_too_long(true); }

static void largest_tag(void)
{
    int *bound, found = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &found);
    CHECK(found && *bound >= 32767, "the largest tag is %d, wanted at least 32767", found ? *bound : -1);
    if (!found)
        return;
    /* Each bit alone, so that none of the tag is lost on its way. */
    for (int tag = *bound; tag > 0; tag = tag == *bound ? 1 << 30 : tag / 2) {
        if (tag > *bound)
            continue;
        int out = rank * 3 + 1, in = -1;
        MPI_Status status;
        MARK();
        MPI_Sendrecv(&out, 1, MPI_INT, after_us(1), tag, &in, 1, MPI_INT, after_us(-1), MPI_ANY_TAG, world, &status);
        CHECK_STATUS(&status, after_us(-1), tag, (long long)sizeof in);
        CHECK(in == after_us(-1) * 3 + 1, "tag %d brought %d", tag, in);
    }
}

const struct test_case basic_cases[] = {{"ping_pong", 2, ping_pong},
                                        {"expected", 1, expected},
                                        {"late_receive", 1, late_receive},
                                        {"zero_bytes", 1, zero_bytes},
                                        {"nobody", 1, nobody},
                                        {"to_self", 1, to_self},
                                        {"send_receive", 1, send_receive},
                                        {"persistent", 1, persistent},
                                        {"too_long", 2, too_long},
                                        {"too_long_stays", 2, too_long_stays},
                                        {"largest_tag", 1, largest_tag},
                                        {0}};
