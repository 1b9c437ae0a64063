/* Collectives that move data: each rank knows from the key what must lie where afterwards, and what must be untouched. */
#include <stdlib.h>

#include "calls.h"

enum { BARRIER_TAG = 4 };

/* Nobody gets through before the last rank has come: it looks for what the others send afterwards, and comes late. */
static void one_barrier(const struct call *call)
{
    int early = 0, last = call->size - 1, value = 0;
    if (call->size == 1)
        early = 0;
    else if (call->rank == last)
        for (int tries = 0; tries < 300 && !early; tries++)
            MPI_Iprobe(MPI_ANY_SOURCE, BARRIER_TAG, call->comm, &early, MPI_STATUS_IGNORE);
    CHECK(!early, "a rank left a barrier of %s before all had come", call->where);
    MARK();
    if (call->waits) {
        MPI_Request request;
        MPI_Ibarrier(call->comm, &request);
        finish(&request);
    } else {
        MPI_Barrier(call->comm);
    }
    if (call->rank != last)
        MPI_Send(&call->rank, 1, MPI_INT, last, BARRIER_TAG, call->comm);
    for (int from = 0; call->rank == last && from < last; from++) {
        MPI_Recv(&value, 1, MPI_INT, from, BARRIER_TAG, call->comm, MPI_STATUS_IGNORE);
        CHECK(same(&value, &from, sizeof from), "rank %d said %d", from, value);
    }
}

static void barrier(void)
{
    for (int i = 0; i < (setting.full ? 50 : 4); i++)
        for_comms(one_barrier);
}

/* Looks at the block of `from` for `to` in memory of blocks of the same size. */
static void check_block(const struct call *call, char *memory, int block, int from, int to)
{
    char *at = memory + (size_t)block * call->count * call->kind->extent;
    CHECK(kind_holds(call->kind, at, call->count, content_for(call, from, to)),
          "%s, %s: %zu elements of %s from %d for %d (root %d) came differently", call->where,
          call->waits ? "not blocking" : "blocking", call->count, call->kind->name, from, to, call->root);
}

static void fill_block(const struct call *call, char *memory, int block, int from, int to)
{
    char *at = memory + (size_t)block * call->count * call->kind->extent;
    kind_fill(call->kind, at, call->count, content_for(call, from, to));
}

static char *blocks(const struct call *call, int count)
{
    return kind_room(call->kind, call->count * (size_t)count);
}

static void one_bcast(const struct call *call)
{
    char *memory = blocks(call, 1);
    if (call->rank == call->root)
        fill_block(call, memory, 0, call->root, 0);
    COLLECTIVE(call, MPI_Bcast, MPI_Ibcast, memory, (int)call->count, call->kind->type, call->root);
    check_block(call, memory, 0, call->root, 0);
    leave(memory);
}

static void one_gather(const struct call *call)
{
    MPI_Datatype type = call->kind->type;
    int count = (int)call->count;
    bool is_root = call->rank == call->root, in_place = is_root && call->in_place;
    char *out = blocks(call, 1), *in = is_root ? blocks(call, call->size) : NULL;
    fill_block(call, out, 0, call->rank, 0);
    if (in_place)
        fill_block(call, in, call->rank, call->rank, 0);
    COLLECTIVE(call, MPI_Gather, MPI_Igather, in_place ? MPI_IN_PLACE : out, count, type, in, count, type, call->root);
    for (int from = 0; is_root && from < call->size; from++)
        check_block(call, in, from, from, 0);
    if (is_root)
        leave(in);
    leave(out);
}

static void one_scatter(const struct call *call)
{
    MPI_Datatype type = call->kind->type;
    int count = (int)call->count;
    bool is_root = call->rank == call->root, in_place = is_root && call->in_place;
    char *in = blocks(call, 1), *out = is_root ? blocks(call, call->size) : NULL;
    for (int to = 0; is_root && to < call->size; to++)
        fill_block(call, out, to, call->root, to);
    COLLECTIVE(call, MPI_Scatter, MPI_Iscatter, out, count, type, in_place ? MPI_IN_PLACE : in, count, type, call->root);
    if (!in_place)
        check_block(call, in, 0, call->root, call->rank);
    if (is_root)
        leave(out);
    leave(in);
}

static void one_allgather(const struct call *call)
{
    MPI_Datatype type = call->kind->type;
    int count = (int)call->count;
    char *out = blocks(call, 1), *in = blocks(call, call->size);
    fill_block(call, out, 0, call->rank, 0);
    if (call->in_place)
        fill_block(call, in, call->rank, call->rank, 0);
    COLLECTIVE(call, MPI_Allgather, MPI_Iallgather, call->in_place ? MPI_IN_PLACE : out, count, type, in, count, type);
    for (int from = 0; from < call->size; from++)
        check_block(call, in, from, from, 0);
    leave(in);
    leave(out);
}

static void one_alltoall(const struct call *call)
{
    MPI_Datatype type = call->kind->type;
    int count = (int)call->count;
    char *out = blocks(call, call->size), *in = blocks(call, call->size);
    for (int to = 0; to < call->size; to++)
        fill_block(call, call->in_place ? in : out, to, call->rank, to);
    COLLECTIVE(call, MPI_Alltoall, MPI_Ialltoall, call->in_place ? MPI_IN_PLACE : out, count, type, in, count, type);
    for (int from = 0; from < call->size; from++)
        check_block(call, in, from, from, call->rank);
    leave(in);
    leave(out);
}

/* Elements in the block of `from` for `to` where each block has another length: nothing, half, all. */
static int length_of(const struct call *call, int from, int to)
{
    return (int)(call->count * ((call->key + (uint64_t)from + 2 * (uint64_t)to) % 3) / 2);
}

/* Blocks of several lengths in one memory: places in elements, from the last to the first, with gaps between them. */
struct blocks {
    char *memory;
    int *counts, *places, total;
};

static struct blocks several(const struct call *call, bool from_each)
{
    struct blocks all = {.counts = calloc((size_t)call->size, sizeof(int)),
                         .places = calloc((size_t)call->size, sizeof(int))};
    for (int peer = call->size - 1; peer >= 0; peer--) {
        all.counts[peer] = from_each ? length_of(call, peer, call->rank) : length_of(call, call->rank, peer);
        all.places[peer] = all.total;
        all.total += all.counts[peer] + 1;
    }
    all.memory = kind_room(call->kind, (size_t)all.total);
    return all;
}

static void forget(struct blocks all)
{
    leave(all.memory);
    free(all.counts);
    free(all.places);
}

static char *block_at(const struct call *call, const struct blocks *all, int peer)
{
    return all->memory + (size_t)all->places[peer] * call->kind->extent;
}

/* After all blocks were looked at (which wipes them) nothing but gaps may be left. */
static void check_between(const struct call *call, const struct blocks *all)
{
    for (size_t i = 0; i < (size_t)all->total * call->kind->extent; i++)
        if (!CHECK((unsigned char)all->memory[i] == GAP, "%s: byte %zu between the blocks was written", call->where, i))
            return;
}

static void check_several(const struct call *call, const struct blocks *all)
{
    for (int from = 0; from < call->size; from++) {
        size_t bytes = (size_t)all->counts[from] * call->kind->extent;
        CHECK(kind_holds(call->kind, block_at(call, all, from), (size_t)all->counts[from],
                         content_for(call, from, call->rank)),
              "%s: %d elements of %s from %d came differently", call->where, all->counts[from], call->kind->name, from);
        for (size_t i = 0; i < bytes; i++)
            block_at(call, all, from)[i] = (char)GAP;
    }
    check_between(call, all);
}

static void one_alltoallv(const struct call *call)
{
    struct blocks out = several(call, false), in = several(call, true);
    MPI_Datatype type = call->kind->type;
    for (int to = 0; to < call->size; to++)
        kind_fill(call->kind, block_at(call, &out, to), (size_t)out.counts[to], content_for(call, call->rank, to));
    COLLECTIVE(call, MPI_Alltoallv, MPI_Ialltoallv, out.memory, out.counts, out.places, type, in.memory, in.counts,
               in.places, type);
    check_several(call, &in);
    forget(in);
    forget(out);
}

/* Another type for each pair; places in bytes. */
static void alltoallw_of(const struct call *call)
{
    int kind_count, peers = call->size;
    const struct kind *all = kinds(&kind_count);
    char *out[peers], *in[peers];
    MPI_Datatype out_types[peers], in_types[peers];
    const struct kind *in_kinds[peers];
    int counts[peers], out_places[peers], in_places[peers];
    size_t room_each = call->count * 256;
    char *outs = room(room_each * (size_t)peers), *ins = room(room_each * (size_t)peers);
    for (int peer = 0; peer < peers; peer++) {
        const struct kind *kind = &all[(call->key + (uint64_t)(call->rank * 5 + peer)) % (uint64_t)kind_count];
        in_kinds[peer] = &all[(call->key + (uint64_t)(peer * 5 + call->rank)) % (uint64_t)kind_count];
        counts[peer] = (int)call->count;
        out_places[peer] = in_places[peer] = (int)room_each * peer;
        out[peer] = outs + out_places[peer];
        in[peer] = ins + in_places[peer];
        out_types[peer] = kind->type;
        in_types[peer] = in_kinds[peer]->type;
        kind_fill(kind, out[peer], call->count, content_for(call, call->rank, peer));
    }
    COLLECTIVE(call, MPI_Alltoallw, MPI_Ialltoallw, outs, counts, out_places, out_types, ins, counts, in_places, in_types);
    for (int from = 0; from < peers; from++)
        CHECK(kind_holds(in_kinds[from], in[from], call->count, content_for(call, from, call->rank)),
              "%s: %zu elements of %s from %d came differently", call->where, call->count, in_kinds[from]->name, from);
    leave(ins);
    leave(outs);
}

static void one_alltoallw(const struct call *call)
{
    static const size_t counts[] = {1, 13, 300, 2000};
    struct call with = *call;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        with.key += i + 1;
        with.count = counts[i];
        alltoallw_of(&with);
    }
}

/* The v-forms of gather, scatter and allgather are alltoallv in which all but some blocks are empty. */
static void one_gatherv(const struct call *call)
{
    bool is_root = call->rank == call->root;
    struct blocks in = several(call, true);
    int count = length_of(call, call->rank, call->root);
    char *out = kind_room(call->kind, (size_t)count);
    kind_fill(call->kind, out, (size_t)count, content_for(call, call->rank, call->root));
    COLLECTIVE(call, MPI_Gatherv, MPI_Igatherv, out, count, call->kind->type, is_root ? in.memory : NULL, in.counts,
               in.places, call->kind->type, call->root);
    if (is_root)
        check_several(call, &in);
    leave(out);
    forget(in);
}

static void one_scatterv(const struct call *call)
{
    bool is_root = call->rank == call->root;
    struct blocks out = several(call, false);
    int count = length_of(call, call->root, call->rank);
    char *in = kind_room(call->kind, (size_t)count);
    for (int to = 0; is_root && to < call->size; to++)
        kind_fill(call->kind, block_at(call, &out, to), (size_t)out.counts[to], content_for(call, call->rank, to));
    COLLECTIVE(call, MPI_Scatterv, MPI_Iscatterv, is_root ? out.memory : NULL, out.counts, out.places, call->kind->type, in,
               count, call->kind->type, call->root);
    CHECK(kind_holds(call->kind, in, (size_t)count, content_for(call, call->root, call->rank)),
          "%s: %d elements of %s from root %d came differently", call->where, count, call->kind->name, call->root);
    leave(in);
    forget(out);
}

/* Everyone gets what rank 0 would: lengths and contents as for it. */
static void one_allgatherv(const struct call *call)
{
    struct call as_first = *call;
    as_first.rank = 0;
    struct blocks in = several(&as_first, true);
    int count = length_of(call, call->rank, 0);
    char *out = kind_room(call->kind, (size_t)count);
    kind_fill(call->kind, out, (size_t)count, content_for(call, call->rank, 0));
    COLLECTIVE(call, MPI_Allgatherv, MPI_Iallgatherv, out, count, call->kind->type, in.memory, in.counts, in.places,
               call->kind->type);
    check_several(&as_first, &in);
    leave(out);
    forget(in);
}

static void bcast(void) { for_calls(false, one_bcast); }
static void gather(void) { for_calls(true, one_gather); }
static void scatter(void) { for_calls(true, one_scatter); }
static void allgather(void) { for_calls(true, one_allgather); }
static void alltoall(void) { for_calls(true, one_alltoall); }
static void gatherv(void) { for_calls(true, one_gatherv); }
static void scatterv(void) { for_calls(true, one_scatterv); }
static void allgatherv(void) { for_calls(true, one_allgatherv); }
static void alltoallv(void) { for_calls(true, one_alltoallv); }
static void alltoallw(void) { for_comms(one_alltoallw); }

const struct test_case move_cases[] = {{"barrier", 1, barrier},
                                       {"bcast", 1, bcast},
                                       {"gather", 1, gather},
                                       {"scatter", 1, scatter},
                                       {"allgather", 1, allgather},
                                       {"alltoall", 1, alltoall},
                                       {"gatherv", 1, gatherv},
                                       {"scatterv", 1, scatterv},
                                       {"allgatherv", 1, allgatherv},
                                       {"alltoallv", 1, alltoallv},
                                       {"alltoallw", 1, alltoallw},
                                       {0}};
