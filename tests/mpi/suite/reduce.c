/* Collectives that compute: every operation on every type that allows it, against results computed here. */
#include <stdlib.h>

#include "calls.h"
#include "numbers.h"

/* One reduction: of which elements, by which operation. */
struct reduction {
    const struct call *call;
    const struct number *number;
    enum operation operation;
    size_t count;
};

typedef void reduces(const struct reduction *what);

/* Writes what rank `r` puts in, elements `from` on. */
static void put(const struct reduction *what, void *memory, int r, size_t from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        what->number->set(memory, i, input(what->operation, what->call->key, r, from + i));
}

/* Looks for the result of ranks 0 to `last` in memory whose first element is the result's element `from`. */
static void check_result(const struct reduction *what, void *memory, int last, size_t from, size_t count)
{
    enum operation operation = what->operation;
    size_t wrong = 0;
    spoil(memory, count * what->number->bytes);
    for (size_t i = 0; i < count; i++) {
        int64_t wanted = input(operation, what->call->key, 0, from + i);
        for (int r = 1; r <= last; r++)
            wanted = combine(operation, wanted, input(operation, what->call->key, r, from + i));
        wrong += !what->number->is(memory, i, wanted);
    }
    CHECK(wrong == 0, "%s, %s: %zu of %zu elements of %s are not the %s of %d ranks", what->call->where,
          what->call->waits ? "not blocking" : "blocking", wrong, count, what->number->name, operation_name(operation),
          last + 1);
}

static void *elements(const struct reduction *what, size_t count)
{
    return room(count * what->number->bytes);
}

static void one_reduce(const struct reduction *what)
{
    const struct call *call = what->call;
    bool is_root = call->rank == call->root, in_place = is_root && call->in_place;
    void *out = elements(what, what->count), *in = elements(what, what->count);
    put(what, in_place ? in : out, call->rank, 0, what->count);
    COLLECTIVE(call, MPI_Reduce, MPI_Ireduce, in_place ? MPI_IN_PLACE : out, is_root ? in : NULL, (int)what->count,
               what->number->type, handle_of(what->operation), call->root);
    if (is_root)
        check_result(what, in, call->size - 1, 0, what->count);
    leave(in);
    leave(out);
}

static void one_allreduce(const struct reduction *what)
{
    const struct call *call = what->call;
    void *out = elements(what, what->count), *in = elements(what, what->count);
    put(what, call->in_place ? in : out, call->rank, 0, what->count);
    COLLECTIVE(call, MPI_Allreduce, MPI_Iallreduce, call->in_place ? MPI_IN_PLACE : out, in, (int)what->count,
               what->number->type, handle_of(what->operation));
    check_result(what, in, call->size - 1, 0, what->count);
    leave(in);
    leave(out);
}

static void one_reduce_scatter_block(const struct reduction *what)
{
    const struct call *call = what->call;
    size_t all = what->count * (size_t)call->size;
    void *out = elements(what, all), *in = elements(what, what->count);
    put(what, out, call->rank, 0, all);
    COLLECTIVE(call, MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, out, in, (int)what->count, what->number->type,
               handle_of(what->operation));
    check_result(what, in, call->size - 1, what->count * (size_t)call->rank, what->count);
    leave(in);
    leave(out);
}

/* Blocks of different lengths, some of them empty. */
static void one_reduce_scatter(const struct reduction *what)
{
    const struct call *call = what->call;
    int counts[call->size];
    size_t all = 0, before = 0, mine = 0;
    for (int r = 0; r < call->size; r++) {
        counts[r] = (int)(what->count * ((size_t)r + call->key) % (what->count + 1));
        if (r < call->rank)
            before += (size_t)counts[r];
        if (r == call->rank)
            mine = (size_t)counts[r];
        all += (size_t)counts[r];
    }
    void *out = elements(what, all), *in = elements(what, mine);
    put(what, out, call->rank, 0, all);
    COLLECTIVE(call, MPI_Reduce_scatter, MPI_Ireduce_scatter, out, in, counts, what->number->type,
               handle_of(what->operation));
    check_result(what, in, call->size - 1, before, mine);
    leave(in);
    leave(out);
}

static void one_scan(const struct reduction *what)
{
    const struct call *call = what->call;
    void *out = elements(what, what->count), *in = elements(what, what->count);
    put(what, call->in_place ? in : out, call->rank, 0, what->count);
    COLLECTIVE(call, MPI_Scan, MPI_Iscan, call->in_place ? MPI_IN_PLACE : out, in, (int)what->count, what->number->type,
               handle_of(what->operation));
    check_result(what, in, call->rank, 0, what->count);
    leave(in);
    leave(out);
}

/* The ranks before ours; what the first one gets is not said. */
static void one_exscan(const struct reduction *what)
{
    const struct call *call = what->call;
    void *out = elements(what, what->count), *in = elements(what, what->count);
    put(what, out, call->rank, 0, what->count);
    COLLECTIVE(call, MPI_Exscan, MPI_Iexscan, out, in, (int)what->count, what->number->type, handle_of(what->operation));
    if (call->rank > 0)
        check_result(what, in, call->rank - 1, 0, what->count);
    leave(in);
    leave(out);
}

static reduces *current;

static enum operation operation_of(const struct number *number, uint64_t turn)
{
    enum operation allowed[OPERATIONS];
    size_t count = 0;
    for (int operation = 0; operation < OPERATIONS; operation++)
        if (number->operations >> operation & 1)
            allowed[count++] = (enum operation)operation;
    return allowed[turn % count];
}

/* A small call becomes one for each type (in a full run, for each operation, too), a large one a call with one type. */
static void of_call(const struct call *call)
{
    int count;
    const struct number *all = numbers(&count);
    bool small = call->count <= 13;
    for (int n = small ? 0 : (int)(call->key % (uint64_t)count); n < count; n++) {
        size_t elements = small ? call->count : call->count * call->kind->size / all[n].bytes + 1;
        int operations = small && setting.full ? OPERATIONS : 1;
        for (int k = 0; k < operations; k++) {
            struct reduction what = {call, &all[n], operation_of(&all[n], call->key + (uint64_t)k), elements};
            current(&what);
        }
        if (!small)
            return;
    }
}

static void reduce_by(reduces *one, bool block_for_each)
{
    current = one;
    for_calls(block_for_each, of_call);
}

static void reduce(void) { reduce_by(one_reduce, false); }
static void allreduce(void) { reduce_by(one_allreduce, false); }
static void reduce_scatter_block(void) { reduce_by(one_reduce_scatter_block, true); }
static void reduce_scatter(void) { reduce_by(one_reduce_scatter, true); }
static void scan(void) { reduce_by(one_scan, false); }
static void exscan(void) { reduce_by(one_exscan, false); }

const struct test_case reduce_cases[] = {{"reduce", 1, reduce},
                                         {"allreduce", 1, allreduce},
                                         {"reduce_scatter_block", 1, reduce_scatter_block},
                                         {"reduce_scatter", 1, reduce_scatter},
                                         {"scan", 1, scan},
                                         {"exscan", 1, exscan},
                                         {0}};
