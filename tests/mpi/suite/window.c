/* One-sided: memory that other ranks write, read and add to, between fences, under locks, and by groups. */
#include <stdlib.h>

#include "fixture.h"

enum { WORDS = 5000 };

/* Memory of ours that others may use; MPI_WIN_NULL where the library has no way to do so on this transport. */
static MPI_Win open_window(int *memory, size_t words)
{
    MPI_Comm comm;
    MPI_Win win = MPI_WIN_NULL;
    int wrong, any_wrong = 0;
    MPI_Comm_dup(world, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    wrong = MPI_Win_create(memory, (MPI_Aint)(words * sizeof(int)), sizeof(int), MPI_INFO_NULL, comm, &win) != MPI_SUCCESS;
    MPI_Allreduce(&wrong, &any_wrong, 1, MPI_INT, MPI_SUM, world);
    MPI_Comm_free(&comm);
    if (any_wrong)
        skip("this MPI library has no one-sided component for this transport");
    return any_wrong ? MPI_WIN_NULL : win;
}

static int *own_words(void)
{
    int *memory = room(WORDS * sizeof *memory);
    fill(memory, WORDS * sizeof *memory, key_of('W', (uint64_t)rank, 0, 0));
    return memory;
}

/* Reads the memory of each rank, all at once. */
static void get(void)
{
    int *memory = own_words(), *got = room((size_t)size * WORDS * sizeof *got);
    MPI_Win win = open_window(memory, WORDS);
    if (win != MPI_WIN_NULL) {
        MARK();
        MPI_Win_fence(0, win);
        for (int r = 0; r < size; r++)
            MPI_Get(got + (size_t)r * WORDS, WORDS, MPI_INT, r, 0, WORDS, MPI_INT, win);
        MPI_Win_fence(0, win);
        for (int r = 0; r < size; r++)
            CHECK_IS(got + (size_t)r * WORDS, WORDS * sizeof *got, key_of('W', (uint64_t)r, 0, 0),
                     "the memory of rank %d reads differently", r);
        MPI_Win_free(&win);
    }
    leave(got);
    leave(memory);
}

/* Writes a part of each rank's memory: part `rank` of it, which nobody else writes. */
static void put(void)
{
    int part = WORDS / (size + 1), *memory = own_words(), *out = room((size_t)size * (size_t)part * sizeof *out);
    size_t bytes = (size_t)part * sizeof *out;
    MPI_Win win = open_window(memory, WORDS);
    if (win != MPI_WIN_NULL) {
        MARK();
        MPI_Win_fence(0, win);
        for (int r = 0; r < size; r++) {
            fill(out + r * part, bytes, key_of('U', (uint64_t)rank, (uint64_t)r, 0));
            MPI_Put(out + r * part, part, MPI_INT, r, rank * part, part, MPI_INT, win);
        }
        MPI_Win_fence(0, win);
        for (int r = 0; r < size; r++)
            CHECK_IS(memory + r * part, bytes, key_of('U', (uint64_t)r, (uint64_t)rank, 0), "rank %d wrote differently", r);
        MPI_Win_free(&win);
    }
    leave(out);
    leave(memory);
}

/* All add to the same words of all; then each adds one to a counter under a lock and sees each number once. */
static void accumulate(void)
{
    enum { TIMES = 30, COUNT = 300 };
    int *memory = room((COUNT + 1) * sizeof *memory), *out = room(COUNT * sizeof *out), seen = -1, sum = 0, all = 0;
    for (int i = 0; i <= COUNT; i++)
        memory[i] = 0;
    MPI_Win win = open_window(memory, COUNT + 1);
    if (win != MPI_WIN_NULL) {
        MARK();
        MPI_Win_fence(0, win);
        for (int i = 0; i < COUNT; i++)
            out[i] = (rank + 1) * i;
        for (int r = 0; r < size; r++)
            MPI_Accumulate(out, COUNT, MPI_INT, r, 0, COUNT, MPI_INT, MPI_SUM, win);
        MPI_Win_fence(0, win);
        for (int i = 0; i < COUNT; i++)
            out[i] = size * (size + 1) / 2 * i;
        CHECK(same(memory, out, COUNT * sizeof *out), "the sums differ");
        for (int i = 0; i < TIMES; i++) {
            const int one = 1;
            MARK();
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
            MPI_Fetch_and_op(&one, &seen, MPI_INT, 0, COUNT, MPI_SUM, win);
            MPI_Win_unlock(0, win);
            sum += seen;
        }
        MPI_Allreduce(&sum, &all, 1, MPI_INT, MPI_SUM, world);
        int total = TIMES * size, wanted = total * (total - 1) / 2;
        CHECK(same(&all, &wanted, sizeof all), "the counter's values sum up to %d, wanted %d", all, wanted);
        MPI_Win_free(&win);
    }
    leave(out);
    leave(memory);
}

/* A window open only to the neighbour: post, start, complete, wait. */
static void neighbours(void)
{
    int *memory = own_words(), *out = room(WORDS * sizeof *out), to = after_us(1), from = after_us(-1);
    MPI_Win win = open_window(memory, WORDS);
    MPI_Group all, source, target;
    if (win != MPI_WIN_NULL) {
        MPI_Comm_group(world, &all);
        MPI_Group_incl(all, 1, &from, &source);
        MPI_Group_incl(all, 1, &to, &target);
        for (int i = 0; i < 10; i++) {
            fill(out, WORDS * sizeof *out, key_of('V', (uint64_t)rank, (uint64_t)i, 0));
            MARK();
            MPI_Win_post(source, 0, win);
            MPI_Win_start(target, 0, win);
            MPI_Put(out, WORDS, MPI_INT, to, 0, WORDS, MPI_INT, win);
            MPI_Win_complete(win);
            MPI_Win_wait(win);
            CHECK_IS(memory, WORDS * sizeof *out, key_of('V', (uint64_t)from, (uint64_t)i, 0), "round %d differs", i);
        }
        MPI_Group_free(&source);
        MPI_Group_free(&target);
        MPI_Group_free(&all);
        MPI_Win_free(&win);
    }
    leave(out);
    leave(memory);
}

const struct test_case window_cases[] = {{"window_get", 1, get},
                                         {"window_put", 1, put},
                                         {"window_accumulate", 1, accumulate},
                                         {"window_neighbours", 1, neighbours},
                                         {0}};
