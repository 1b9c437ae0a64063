/* The list of collective calls: see calls.h. */
#include "calls.h"

#include <stdlib.h>

enum { COMMS = 3, SMALL = 13, KINDS_AT_ONCE = 6 };

static const char *const comm_names[COMMS] = {"all ranks", "a half, turned around", "one rank alone"};

/* The communicator of a number; to be freed if it is not the first. The halves are of even and odd ranks, last first. */
static MPI_Comm make_comm(int number)
{
    MPI_Comm comm;
    if (number == 0)
        return world;
    if (number == 1)
        MPI_Comm_split(world, rank % 2, size - rank, &comm);
    else
        MPI_Comm_dup(MPI_COMM_SELF, &comm);
    return comm;
}

uint64_t content_for(const struct call *call, int from, int to)
{
    return key_of(call->key, (uint64_t)from, (uint64_t)to, call->count);
}

static void with_kinds(struct call *call, void (*one)(const struct call *))
{
    static unsigned turn;
    int kind_count;
    const struct kind *all = kinds(&kind_count);
    for (int k = 0; k < kind_count; k++) {
        /* Not in a full run: some kinds at a time, others the next time. */
        if (!setting.full && (unsigned)k % KINDS_AT_ONCE != turn % KINDS_AT_ONCE)
            continue;
        call->kind = &all[k];
        call->count = SMALL;
        call->key++;
        call->root = (int)(call->key % (uint64_t)call->size);
        call->in_place = call->key / 2 % 2;
        one(call);
    }
    turn++;
}

static void with_sizes(struct call *call, bool block_for_each, void (*one)(const struct call *))
{
    long most = setting.full ? 8 * MIB : 300000;
    int kind_count;
    const struct kind *all = kinds(&kind_count);
    long *sizes = sizes_up_to(block_for_each ? most / call->size + 1 : most);
    for (int i = 0; sizes[i] >= 0; i++) {
        call->key++;
        call->kind = sizes[i] < 4096 || i % 4 == 0 ? &all[kind_count - 1 - i % 3] : &all[i % first_derived()];
        call->count = ((size_t)sizes[i] + call->kind->size - 1) / call->kind->size;
        call->root = (int)(call->key % (uint64_t)call->size);
        call->in_place = i % 2;
        one(call);
    }
    free(sizes);
}

static void over_comms(bool alone, bool block_for_each, void (*one)(const struct call *))
{
    for (int number = 0; number < COMMS; number++) {
        struct call call = {.comm = make_comm(number), .where = comm_names[number]};
        int kind_count;
        MPI_Comm_rank(call.comm, &call.rank);
        MPI_Comm_size(call.comm, &call.size);
        call.kind = kinds(&kind_count);
        call.count = 1;
        for (int waits = 0; waits < 2; waits++) {
            call.waits = waits;
            call.key = key_of('c', (uint64_t)number, (uint64_t)waits, number == 1 ? (uint64_t)rank % 2 : 0);
            if (alone) {
                one(&call);
                continue;
            }
            with_kinds(&call, one);
            with_sizes(&call, block_for_each, one);
        }
        if (number != 0)
            MPI_Comm_free(&call.comm);
    }
}

void for_calls(bool block_for_each, void (*one)(const struct call *call))
{
    over_comms(false, block_for_each, one);
}

void for_comms(void (*one)(const struct call *call))
{
    over_comms(true, false, one);
}
