/* Several threads of each rank talk at once, where the library grants MPI_THREAD_MULTIPLE (suite --threads). */
#include <pthread.h>
#include <stdlib.h>

#include "fixture.h"

enum { THREADS = 4 };

/* What a thread does and what it saw; checks are made by the main thread alone. */
struct worker {
    pthread_t thread;
    MPI_Comm comm;
    int number, wrong;
};

static bool granted(void)
{
    int provided = MPI_THREAD_SINGLE;
    MPI_Query_thread(&provided);
    if (provided < MPI_THREAD_MULTIPLE)
        skip("MPI_THREAD_MULTIPLE is not granted (or --threads was not given)");
    return provided >= MPI_THREAD_MULTIPLE;
}

static void with_workers(void *(*work)(void *), MPI_Comm *comms)
{
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.comm = comms ? comms[i] : world, .number = i};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            abort();
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        CHECK(workers[i].wrong == 0, "thread %d got %d messages that differ", i, workers[i].wrong);
    }
}

/* Rings of messages, each thread by its own tag on the same communicator. */
static void *talk(void *argument)
{
    struct worker *worker = argument;
    long *sizes = sizes_up_to(100000);
    int tag = worker->number, to = after_us(1), from = after_us(-1);
    for (int i = 0; i < 130; i++) {
        size_t bytes = (size_t)sizes[i % 10];
        char *out = room(bytes), *in = room(bytes);
        MPI_Request requests[2];
        fill(out, bytes, key_of('H', (uint64_t)rank, (uint64_t)tag, (uint64_t)i));
        MPI_Irecv(in, (int)bytes, MPI_BYTE, from, tag, worker->comm, &requests[0]);
        MPI_Isend(out, (int)bytes, MPI_BYTE, to, tag, worker->comm, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        worker->wrong += !holds(in, bytes, key_of('H', (uint64_t)from, (uint64_t)tag, (uint64_t)i));
        leave(in);
        leave(out);
    }
    free(sizes);
    return NULL;
}

static void threads_talk(void)
{
    MARK();
    if (granted())
        with_workers(talk, NULL);
}

/* Threads that take whatever comes: a matched probe gives each message to exactly one of them. */
static void *take_any(void *argument)
{
    enum { EACH = 40 };
    struct worker *worker = argument;
    for (int i = 0; i < EACH; i++) {
        int out = rank * 1000 + worker->number * 100 + i, in = -1;
        MPI_Message message;
        MPI_Status status;
        MPI_Request request;
        MPI_Isend(&out, 1, MPI_INT, after_us(1), worker->number * 100 + i, worker->comm, &request);
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, worker->comm, &message, &status);
        MPI_Mrecv(&in, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        int wanted = after_us(-1) * 1000 + status.MPI_TAG;
        worker->wrong += !same(&in, &wanted, sizeof in);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return NULL;
}

static void threads_probe(void)
{
    MARK();
    if (granted())
        with_workers(take_any, NULL);
}

/* Collectives at once, each thread on its own communicator. */
static void *sum_up(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < 60; i++) {
        int out[50], in[50], wanted[50];
        for (int k = 0; k < 50; k++) {
            out[k] = rank * worker->number + i + k;
            wanted[k] = size * (size - 1) / 2 * worker->number + size * (i + k);
        }
        MPI_Allreduce(out, in, 50, MPI_INT, MPI_SUM, worker->comm);
        worker->wrong += !same(in, wanted, sizeof in);
    }
    return NULL;
}

static void threads_collect(void)
{
    MPI_Comm comms[THREADS];
    MARK();
    if (!granted())
        return;
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(world, &comms[i]);
    with_workers(sum_up, comms);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
}

const struct test_case threads_cases[] = {{"threads_talk", 1, threads_talk},
                                          {"threads_probe", 1, threads_probe},
                                          {"threads_collect", 1, threads_collect},
                                          {0}};
