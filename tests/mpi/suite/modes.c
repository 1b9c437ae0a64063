/* The four kinds of send: standard, synchronous (over only once it is being received), buffered (over at once), ready. */
#include <stdlib.h>

#include "fixture.h"

/* Some messages there and back, so that both sides work on what is under way. */
static void chat(int peer, int tag)
{
    enum { TIMES = 50 };
    for (int i = 0; i < TIMES; i++) {
        int out = i, in = -1;
        MPI_Sendrecv(&out, 1, MPI_INT, peer, tag, &in, 1, MPI_INT, peer, tag, world, MPI_STATUS_IGNORE);
        CHECK(in == i, "chat brought %d, wanted %d", in, i);
    }
}

static void check_issend(size_t bytes, int peer)
{
    char *out = room(bytes), *in = room(bytes);
    MPI_Request request;
    int done = 0;
    MARK();
    fill(out, bytes, key_of('S', (uint64_t)rank, bytes, 0));
    MPI_Issend(out, (int)bytes, MPI_BYTE, peer, 1, world, &request);
    chat(peer, 2);
    for (int i = 0; i < 100 && !done; i++)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    CHECK(!done, "a synchronous send of %zu bytes was over before anyone received it", bytes);
    MARK();
    chat(peer, 2);
    MPI_Recv(in, (int)bytes, MPI_BYTE, peer, 1, world, MPI_STATUS_IGNORE);
    if (!done)
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_IS(in, bytes, key_of('S', (uint64_t)peer, bytes, 0), "%zu bytes came differently", bytes);
    leave(in);
    leave(out);
}

/* Neither side has posted a receive while both ask whether their send is over: it must not be. */
static void synchronous(void)
{
    long *sizes = sizes_up_to(MIB);
    for (int i = 0; sizes[i] >= 0 && (rank ^ 1) < size; i++)
        check_issend((size_t)sizes[i], rank ^ 1);
    free(sizes);
    MPI_Barrier(world);
}

/* The blocking one: what is sent after it cannot be there before its message is received. */
static void synchronous_blocks(void)
{
    static const int lengths[] = {1, 5000, 200000};
    int peer = rank ^ 1, after = 77;
    for (int i = 0; i < 3 && peer < size; i++) {
        size_t bytes = (size_t)lengths[i];
        char *memory = room(bytes);
        MARK();
        if (rank % 2 == 0) {
            fill(memory, bytes, key_of('Y', (uint64_t)peer, bytes, 0));
            MPI_Ssend(memory, lengths[i], MPI_BYTE, peer, 5, world);
            MPI_Send(&after, 1, MPI_INT, peer, 6, world);
        } else {
            int early = 0;
            for (int tries = 0; tries < 2000 && !early; tries++)
                MPI_Iprobe(peer, 6, world, &early, MPI_STATUS_IGNORE);
            CHECK(!early, "a synchronous send of %zu bytes returned before it was received", bytes);
            MPI_Recv(memory, lengths[i], MPI_BYTE, peer, 5, world, MPI_STATUS_IGNORE);
            CHECK_IS(memory, bytes, key_of('Y', (uint64_t)rank, bytes, 0), "%zu bytes came differently", bytes);
            MPI_Recv(&after, 1, MPI_INT, peer, 6, world, MPI_STATUS_IGNORE);
        }
        leave(memory);
    }
    MPI_Barrier(world);
}

/* A synchronous send that a matched probe takes is over, too. Open MPI 4.1.4 over libfabric, with any provider, never tells
 * the sender. */
static void synchronous_mprobe(void)
{
    int out = rank, in = -1, wanted = after_us(-1);
    MPI_Request request;
    MPI_Message message;
    MARK();
    MPI_Issend(&out, 1, MPI_INT, after_us(1), 2, world, &request);
    MPI_Mprobe(after_us(-1), 2, world, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    CHECK(same(&in, &wanted, sizeof in), "a matched probe took %d, wanted %d", in, wanted);
    MARK();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Buffered sends return although nobody receives; detaching waits until all are gone. */
static void buffered(void)
{
    long *sizes = sizes_up_to(256 * KIB);
    int count = 0, bytes = 0, to = after_us(1), from = after_us(-1);
    for (; sizes[count] >= 0; count++)
        bytes += (int)sizes[count] + MPI_BSEND_OVERHEAD + 64;
    char *buffer = room((size_t)bytes), *out = room(256 * KIB), *detached = NULL;
    int detached_bytes = 0;
    MPI_Buffer_attach(buffer, bytes);
    MARK();
    for (int i = 0; i < count; i++) {
        fill(out, (size_t)sizes[i], key_of('B', (uint64_t)rank, (uint64_t)i, 0));
        MPI_Bsend(out, (int)sizes[i], MPI_BYTE, to, i, world);
    }
    MARK();
    for (int i = count - 1; i >= 0; i--) {
        char *in = room((size_t)sizes[i]);
        MPI_Recv(in, (int)sizes[i], MPI_BYTE, from, i, world, MPI_STATUS_IGNORE);
        CHECK_IS(in, (size_t)sizes[i], key_of('B', (uint64_t)from, (uint64_t)i, 0), "%ld bytes came differently", sizes[i]);
        leave(in);
    }
    MARK();
    MPI_Buffer_detach(&detached, &detached_bytes);
    CHECK(detached == buffer && detached_bytes == bytes, "another buffer was detached, of %d bytes", detached_bytes);
    leave(out);
    leave(buffer);
    free(sizes);
    MPI_Barrier(world);
}

/* Ready sends: the receive is known to be posted. */
static void ready(void)
{
    long *sizes = sizes_up_to(MIB);
    for (int i = 0; sizes[i] >= 0; i++) {
        size_t bytes = (size_t)sizes[i];
        char *out = room(bytes), *in = room(bytes);
        MPI_Request request, send;
        MARK();
        fill(out, bytes, key_of('R', (uint64_t)rank, bytes, 0));
        MPI_Irecv(in, (int)bytes, MPI_BYTE, after_us(-1), 1, world, &request);
        MPI_Barrier(world);
        if (i % 2) {
            MPI_Rsend(out, (int)bytes, MPI_BYTE, after_us(1), 1, world);
        } else {
            MPI_Irsend(out, (int)bytes, MPI_BYTE, after_us(1), 1, world, &send);
            finish(&send);
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK_IS(in, bytes, key_of('R', (uint64_t)after_us(-1), bytes, 0), "%zu bytes came differently", bytes);
        leave(in);
        leave(out);
    }
    free(sizes);
}

const struct test_case modes_cases[] = {{"synchronous", 2, synchronous},
                                        {"synchronous_blocks", 2, synchronous_blocks},
                                        {"synchronous_mprobe", 1, synchronous_mprobe},
                                        {"buffered", 1, buffered},
                                        {"ready", 1, ready},
                                        {0}};
