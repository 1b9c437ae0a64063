/* The common ground of the MPI suite: contents from keys, guarded memory, checks, message sizes, the watchdog's marks. */
#include "fixture.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verdict.h"

enum { GUARD = 64, GUARD_BYTE = 0xA5 };

struct setting setting = {.seed = 1, .deadline = 120};
MPI_Comm world;
int rank, size;
struct verdict verdict;

bool check(bool right, const char *file, int line, const char *format, ...)
{
    if (right)
        return true;
    if (verdict.wrong++ == 0) {
        const char *name = strrchr(file, '/');
        int used = snprintf(verdict.message, sizeof verdict.message, "%s:%d: ", name ? name + 1 : file, line);
        va_list words;
        va_start(words, format);
        vsnprintf(verdict.message + used, sizeof verdict.message - (size_t)used, format, words);
        va_end(words);
    }
    return false;
}

void mark(const char *file, int line)
{
    verdict.file = file;
    verdict.line = line;
}

void skip(const char *why)
{
    verdict.skipped = why;
}

/* SplitMix64 (Steele, Lea, Flood 2014): any number is a fine seed, and it spreads keys well. */
static uint64_t spread(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

uint64_t next_random(uint64_t *state)
{
    *state += 0x9E3779B97F4A7C15u;
    return spread(*state);
}

uint64_t below(uint64_t *state, uint64_t limit)
{
    return limit ? next_random(state) % limit : 0;
}

uint64_t key_of(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    return spread(spread(spread(spread(setting.seed + a) + b) + c) + d);
}

void *room(size_t bytes)
{
    unsigned char *whole = malloc(bytes + 2 * GUARD + sizeof bytes);
    if (!whole) {
        fprintf(stderr, "suite: rank %d has no %zu bytes of memory\n", rank, bytes);
        MPI_Abort(MPI_COMM_WORLD, 3);
        abort();
    }
    memset(whole, GUARD_BYTE, GUARD);
    memcpy(whole, &bytes, sizeof bytes);
    memset(whole + GUARD, GAP, bytes);
    memset(whole + GUARD + bytes, GUARD_BYTE, GUARD);
    return whole + GUARD;
}

void leave(void *memory)
{
    unsigned char *whole = (unsigned char *)memory - GUARD;
    size_t bytes, broken = 0;
    memcpy(&bytes, whole, sizeof bytes);
    for (size_t i = sizeof bytes; i < GUARD; i++)
        broken += whole[i] != GUARD_BYTE;
    for (size_t i = 0; i < GUARD; i++)
        broken += whole[GUARD + bytes + i] != GUARD_BYTE;
    CHECK(broken == 0, "%zu bytes beside a message's memory of %zu bytes were overwritten", broken, bytes);
    free(whole);
}

void fill(void *memory, size_t bytes, uint64_t key)
{
    unsigned char *to = memory;
    size_t words = bytes / 8;
    for (size_t i = 0; i < words; i++) {
        uint64_t word = spread(key + i);
        memcpy(to + 8 * i, &word, 8);
    }
    uint64_t word = spread(key + words);
    memcpy(to + 8 * words, &word, bytes % 8);
}

void spoil(void *memory, size_t bytes)
{
    if (setting.spoil && bytes > 0)
        ((unsigned char *)memory)[bytes * 2 / 3] ^= 4;
}

bool holds(void *memory, size_t bytes, uint64_t key)
{
    spoil(memory, bytes);
    const unsigned char *at = memory;
    size_t words = bytes / 8;
    uint64_t difference = 0;
    for (size_t i = 0; i < words; i++) {
        uint64_t word;
        memcpy(&word, at + 8 * i, 8);
        difference |= word ^ spread(key + i);
    }
    uint64_t word = spread(key + words);
    return difference == 0 && memcmp(at + 8 * words, &word, bytes % 8) == 0;
}

bool same(void *got, const void *wanted, size_t bytes)
{
    spoil(got, bytes);
    return bytes == 0 || memcmp(got, wanted, bytes) == 0;
}

void check_status(const MPI_Status *status, int source, int tag, long long bytes, const char *file, int line)
{
    MPI_Count count = -1;
    MPI_Get_elements_x(status, MPI_BYTE, &count);
    if (setting.spoil)
        count++;
    check(status->MPI_SOURCE == source && status->MPI_TAG == tag && count == bytes, file, line,
          "a message from rank %d with tag %d of %lld bytes, wanted one from rank %d with tag %d of %lld bytes",
          status->MPI_SOURCE, status->MPI_TAG, (long long)count, source, tag, bytes);
}

static int by_number(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

long *sizes_up_to(long most)
{
    /* Around the sizes at which transports change their ways: an inline word, a cache line, a page, a ring's slot. */
    static const long choice[] = {1, 2, 7, 64, 193, 1024, 4095, 4097, 16384, 65537, 262144, 1048577};
    enum { ROOM = 128, RANDOM = 24 };
    long *list = malloc((ROOM + 1) * sizeof *list);
    size_t count = 0;
    uint64_t state = key_of(1, 2, 3, (uint64_t)most);
    if (!list)
        abort();
    for (size_t i = 0; !setting.full && i < sizeof choice / sizeof *choice; i++)
        list[count++] = choice[i];
    for (long power = 1; setting.full && power <= most; power *= 2)
        for (long by = -1; by <= 1; by++)
            list[count++] = power + by;
    for (int i = 0; i < (setting.full ? RANDOM : 2); i++)
        list[count++] = 1 + (long)below(&state, 1u << (1 + below(&state, 23)));
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (list[i] > 0 && list[i] <= most)
            list[kept++] = list[i];
    qsort(list, kept, sizeof *list, by_number);
    list[kept] = -1;
    return list;
}

void finish(MPI_Request *request)
{
    static unsigned turn;
    int done = 0;
    for (unsigned tries = turn++ % 5 * 2; tries > 0 && !done; tries--)
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
    if (!done)
        MPI_Wait(request, MPI_STATUS_IGNORE);
}

int after_us(int k)
{
    return ((rank + k) % size + size) % size;
}
