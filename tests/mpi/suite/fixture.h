/* What the files of the MPI suite share: who we are, contents that can be told apart, checks that say what they saw.
 *
 * Contents are a stream of bytes that follows from a key, so no expected message is ever stored or sent: each side makes
 * it from what it knows by itself (who sent it to whom, as which one, in which case). Memory for messages lies between
 * guards, and bytes that no message covers must keep the value they had.
 */
#ifndef BULKHEAD_MPI_KIT_H
#define BULKHEAD_MPI_KIT_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KIB = 1024, MIB = 1024 * 1024, GAP = 0xEE };

/* What the command line asked for. */
struct setting {
    bool full;         /* all sizes, not a choice of them */
    bool spoil;        /* flip a bit in what arrived before it is checked: each case must see it */
    uint64_t seed;     /* of everything random */
    unsigned deadline; /* seconds that one case may take */
};

/* One named case. Every rank calls it; it says by CHECK what is wrong. */
struct test_case {
    const char *name;
    int least_ranks; /* with fewer the case is left out */
    void (*run)(void);
};

extern struct setting setting;
extern MPI_Comm world; /* all ranks, ours alone */
extern int rank, size; /* in `world` */

/* The cases of each file, ended by one without a name. */
extern const struct test_case basic_cases[], match_cases[], modes_cases[], many_cases[], move_cases[], reduce_cases[],
    comms_cases[], types_cases[], mixed_cases[], threads_cases[], window_cases[];

/* Says that something is wrong unless it is; the first message of each rank is kept. */
#define CHECK(right, ...) check((right), __FILE__, __LINE__, __VA_ARGS__)
bool check(bool right, const char *file, int line, const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Where we are, for the message that a case hangs. */
#define MARK() mark(__FILE__, __LINE__)
void mark(const char *file, int line);

/* Leaves the case out; all ranks must come to the same conclusion. */
void skip(const char *why);

/* Random numbers: the same on all ranks where all start from the same seed. */
uint64_t next_random(uint64_t *state);
uint64_t below(uint64_t *state, uint64_t limit);

/* A key made of some numbers and the seed. */
uint64_t key_of(uint64_t a, uint64_t b, uint64_t c, uint64_t d);

/* Bytes for messages, all GAP, between guards; `leave` sees whether the guards are whole. */
void *room(size_t bytes);
void leave(void *memory);

/* The contents of a key: made, and looked for. */
void fill(void *memory, size_t bytes, uint64_t key);
#define CHECK_IS(memory, bytes, key, ...) CHECK(holds((memory), (bytes), (key)), __VA_ARGS__)
bool holds(void *memory, size_t bytes, uint64_t key);

/* What --spoil does to everything that arrived, before it is looked at. */
void spoil(void *memory, size_t bytes);

/* Two pieces of memory are the same. */
bool same(void *got, const void *wanted, size_t bytes);

/* A receive ended as it should: source, tag, length in bytes. */
#define CHECK_STATUS(status, source, tag, bytes) check_status((status), (source), (tag), (bytes), __FILE__, __LINE__)
void check_status(const MPI_Status *status, int source, int tag, long long bytes, const char *file, int line);

/* Message sizes up to `most` in bytes, sorted, ended by -1: in a full run every power of two, its neighbours and some
 * random ones, else a choice of them. The same on all ranks. To be freed. */
long *sizes_up_to(long most);

/* Ends a request, now with MPI_Wait, now with a loop of MPI_Test. */
void finish(MPI_Request *request);

/* Rank k places after ours, around the end. */
int after_us(int k);

#endif
