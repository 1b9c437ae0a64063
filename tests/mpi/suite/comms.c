/* Communicators keep their messages apart, whatever the tags; parts of all ranks; two groups that talk to each other. */
#include <stdlib.h>

#include "fixture.h"

enum { COMMS = 6 };

/* The same tag from the same rank on copies of a communicator, received from the last copy to the first. */
static void copies(void)
{
    MPI_Comm comms[COMMS];
    MPI_Request sends[COMMS];
    int out[COMMS];
    for (int k = 0; k < COMMS; k++) {
        MPI_Comm_dup(k ? comms[k - 1] : world, &comms[k]);
        out[k] = 100 * k + rank;
    }
    MARK();
    for (int k = 0; k < COMMS; k++)
        MPI_Isend(&out[k], 1, MPI_INT, after_us(1), 1, comms[k], &sends[k]);
    for (int k = COMMS - 1; k >= 0; k--) {
        int in = -1, flag = 1, wanted = 100 * k + after_us(-1);
        MPI_Status status;
        MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[k], &status);
        CHECK_STATUS(&status, after_us(-1), 1, (long long)sizeof in);
        CHECK(same(&in, &wanted, sizeof in), "copy %d brought %d, wanted %d", k, in, wanted);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comms[k], &flag, MPI_STATUS_IGNORE);
        CHECK(!flag, "copy %d found another copy's message", k);
    }
    MPI_Waitall(COMMS, sends, MPI_STATUSES_IGNORE);
    for (int k = 0; k < COMMS; k++)
        MPI_Comm_free(&comms[k]);
}

/* In every part of every split: ranks by the key, sums of the members, messages that no other part sees. */
static void splits(void)
{
    for (int parts = 1; parts <= size; parts++) {
        MPI_Comm part;
        int place, members, sum = 0, in = -1, wanted = 0;
        MARK();
        MPI_Comm_split(world, rank % parts, -rank, &part);
        MPI_Comm_rank(part, &place);
        MPI_Comm_size(part, &members);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, part);
        for (int r = rank % parts; r < size; r += parts)
            wanted += r;
        CHECK(same(&sum, &wanted, sizeof sum), "%d parts: the sum was %d, wanted %d", parts, sum, wanted);
        int higher = 0;
        for (int r = rank + parts; r < size; r += parts)
            higher++;
        CHECK(place == higher, "%d parts: place %d, wanted %d", parts, place, higher);
        MPI_Sendrecv(&rank, 1, MPI_INT, (place + 1) % members, 0, &in, 1, MPI_INT, (place + members - 1) % members, 0, part,
                     MPI_STATUS_IGNORE);
        CHECK(in % parts == rank % parts, "%d parts: a message of rank %d came", parts, in);
        MPI_Comm_free(&part);
    }
}

/* Some ranks have no part in it. */
static void groups(void)
{
    MPI_Group all, some;
    MPI_Comm comm;
    int chosen[size], count = 0;
    for (int r = size - 1; r >= 0; r -= 2)
        chosen[count++] = r;
    MARK();
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, count, chosen, &some);
    MPI_Comm_create(world, some, &comm);
    CHECK((comm != MPI_COMM_NULL) == ((size - 1 - rank) % 2 == 0), "membership is wrong");
    for (int i = 0; i < 20 && comm != MPI_COMM_NULL; i++) {
        int place, value, wanted = chosen[i % count] + i;
        MPI_Comm_rank(comm, &place);
        value = place == i % count ? rank + i : -1;
        MPI_Bcast(&value, 1, MPI_INT, i % count, comm);
        CHECK(same(&value, &wanted, sizeof value), "a broadcast brought %d, wanted %d", value, wanted);
    }
    if (comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm);
    MPI_Group_free(&some);
    MPI_Group_free(&all);
}

/* More communicators over time than there can be at once. */
static void many_in_turn(void)
{
    int times = setting.full ? 500 : 40;
    for (int i = 0; i < times; i++) {
        MPI_Comm comm;
        int in = -1, wanted = after_us(-1) + i, out = rank + i;
        MARK();
        MPI_Comm_dup(world, &comm);
        MPI_Sendrecv(&out, 1, MPI_INT, after_us(1), 0, &in, 1, MPI_INT, after_us(-1), 0, comm, MPI_STATUS_IGNORE);
        CHECK(same(&in, &wanted, sizeof in), "communicator %d brought %d, wanted %d", i, in, wanted);
        MPI_Comm_free(&comm);
    }
}

/* Collectives between the two groups: each gets what the other gave. */
static void between_groups(MPI_Comm inter, bool low, int lows)
{
    int theirs = low ? size - lows : lows, sum = 0, wanted = 0, value = -1;
    int got[size];
    MARK();
    MPI_Barrier(inter);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, inter);
    for (int r = low ? lows : 0; r < (low ? size : lows); r++)
        wanted += r;
    CHECK(same(&sum, &wanted, sizeof sum), "the other group's sum was %d, wanted %d", sum, wanted);
    MARK();
    MPI_Allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, inter);
    for (int r = 0; r < theirs; r++)
        CHECK(got[r] == (low ? lows : 0) + r, "place %d of the other group is rank %d", r, got[r]);
    MARK();
    value = low && rank == 0 ? 4711 : -1;
    MPI_Bcast(&value, 1, MPI_INT, low ? (rank == 0 ? MPI_ROOT : MPI_PROC_NULL) : 0, inter);
    CHECK(low || value == 4711, "the other group's broadcast brought %d", value);
}

static void two_groups(void)
{
    int lows = (size + 1) / 2, place, in = -1, theirs;
    bool low = rank < lows;
    MPI_Comm mine, inter, merged;
    MPI_Status status;
    MARK();
    MPI_Comm_split(world, low, rank, &mine);
    MPI_Intercomm_create(mine, 0, world, low ? lows : 0, 3, &inter);
    MPI_Comm_rank(mine, &place);
    MPI_Comm_remote_size(inter, &theirs);
    if (place < theirs) {
        MPI_Sendrecv(&rank, 1, MPI_INT, place, 2, &in, 1, MPI_INT, MPI_ANY_SOURCE, 2, inter, &status);
        CHECK_STATUS(&status, place, 2, (long long)sizeof in);
        CHECK(in == (low ? lows : 0) + place, "the other group's place %d said it is rank %d", place, in);
    }
    between_groups(inter, low, lows);
    MARK();
    MPI_Intercomm_merge(inter, low, &merged);
    MPI_Comm_rank(merged, &place);
    CHECK(place == (low ? size - lows + rank : rank - lows), "place %d after the groups became one", place);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&mine);
}

const struct test_case comms_cases[] = {{"copies", 1, copies},
                                        {"splits", 1, splits},
                                        {"groups", 1, groups},
                                        {"many_in_turn", 1, many_in_turn},
                                        {"two_groups", 2, two_groups},
                                        {0}};
