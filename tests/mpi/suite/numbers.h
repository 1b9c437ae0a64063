/* Elements that can be reduced: how to write one, how to see which one it is, and what each operation makes of two.
 *
 * The expected result is computed here on 64-bit integers, whose small values every type holds exactly, so any order of
 * the operations gives the same.
 */
#ifndef BULKHEAD_MPI_NUMBERS_H
#define BULKHEAD_MPI_NUMBERS_H

#include "fixture.h"

enum operation { SUM, PROD, MAX, MIN, LAND, LOR, LXOR, BAND, BOR, BXOR, MINLOC, MAXLOC, COMPOSE, OPERATIONS };

struct number {
    const char *name;
    MPI_Datatype type;
    size_t bytes;
    unsigned operations; /* a bit for each that the type allows */
    void (*set)(void *memory, size_t i, int64_t value);
    bool (*is)(const void *memory, size_t i, int64_t value);
};

const struct number *numbers(int *count);
/* The MPI library's name of an operation; made at the first call. */
MPI_Op handle_of(enum operation operation);
const char *operation_name(enum operation operation);

/* What rank `r` puts in as element `i`. */
int64_t input(enum operation operation, uint64_t key, int r, size_t i);
/* What an operation makes of two, the left one of the lower rank. */
int64_t combine(enum operation operation, int64_t left, int64_t right);

#endif
