/* One collective call after the other: over all ranks, over a part of them in another order, and over one alone;
 * blocking and not; each kind of element; small and large.
 */
#ifndef BULKHEAD_MPI_CALLS_H
#define BULKHEAD_MPI_CALLS_H

#include "kinds.h"

struct call {
    MPI_Comm comm;
    int rank, size, root; /* in `comm` */
    bool waits;           /* not blocking: started, then waited for */
    bool in_place;        /* where the collective can */
    const struct kind *kind;
    size_t count; /* elements of each block */
    uint64_t key; /* the same on all ranks of `comm` */
    const char *where;
};

/* Makes the calls. Blocks for each rank are smaller, so that a call's memory stays the same. */
void for_calls(bool block_for_each, void (*one)(const struct call *call));
/* The communicators alone: `kind` is bytes, `count` one. */
void for_comms(void (*one)(const struct call *call));

/* The blocking or the other form of a collective. */
#define COLLECTIVE(call, blocks, starts, ...)                                                                          \
    do {                                                                                                               \
        MARK();                                                                                                        \
        if ((call)->waits) {                                                                                           \
            MPI_Request request_;                                                                                      \
            starts(__VA_ARGS__, (call)->comm, &request_);                                                              \
            finish(&request_);                                                                                         \
        } else {                                                                                                       \
            blocks(__VA_ARGS__, (call)->comm);                                                                         \
        }                                                                                                              \
    } while (0)

/* Key of what `from` has for `to` in this call. */
uint64_t content_for(const struct call *call, int from, int to);

#endif
